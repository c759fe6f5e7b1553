package arbiter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// childEnv makes this test binary a process of another kind: its value is the
// kind, the socket and, for backends, the name.
const childEnv = "PVDRM_ARBITER_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(strings.Split(what, ",")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child says "ready" and does what it is for until it is killed.
func child(args []string) error {
	kind, socket := args[0], args[1]
	if kind == "arbiter" {
		s, err := NewServer(Config{})
		if err != nil {
			return err
		}
		l, err := Listen(socket, 0o600)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		return s.Serve(context.Background(), l)
	}
	g, err := Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: args[2]}}.Connect})
	if err != nil {
		return err
	}
	if !g.Stats().Joined {
		return errors.New("not joined")
	}
	fmt.Println("ready")
	for {
		enter(g, Compute)
		if kind == "holds" {
			select {}
		}
		time.Sleep(100 * us)
		g.Leave(Compute, 100*us, 1, false)
	}
}

// process is a child.
type process struct {
	cmd *exec.Cmd
}

func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, ","))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return p
}

// kill is kill -9, and may be called again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	_ = p.cmd.Wait()         // that it was killed is no news
}

// serve starts an arbiter in this process, with nothing left of it at the end.
func serve(t *testing.T, cfg Config) (s *Server, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-arbiter-") // short enough for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket = filepath.Join(dir, "s")
	s, err = NewServer(cfg)
	require.NoError(t, err)
	l, err := Listen(socket, 0o600)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		require.Zero(t, s.door.all)
		require.Empty(t, s.door.users)
	})
	return s, socket
}

func join(t *testing.T, socket, name string) *Gate {
	t.Helper()
	g, err := Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: name}}.Connect, WhenLost: WaitForArbiter})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// eventually waits for something that other processes do.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 10*time.Minute, time.Millisecond, what)
}

func TestSockets(t *testing.T) {
	noLeaks(t)
	s, socket := serve(t, Config{Admit: func(p Peer, h Hello) (Admission, error) {
		if p.PID != int32(os.Getpid()) || p.UID != uint32(os.Getuid()) || p.GID != uint32(os.Getgid()) {
			return Admission{}, fmt.Errorf("peer %+v: %w", p, unix.EACCES)
		}
		return SameUser(p, h)
	}, MaxPerUser: 3})
	a, b := join(t, socket, "a"), join(t, socket, "b")
	for range 200 {
		run(a, Compute, 0)
		run(b, Compute, 0)
		run(b, Copy, 0)
	}
	st := s.Stats()[0]
	require.Equal(t, uint64(200), st.Guests[0].Engines[Compute].Commands)
	require.Equal(t, uint64(200), st.Guests[1].Engines[Compute].Commands)
	require.Equal(t, uint64(1), st.Engines[Copy].Grants)

	var refused *RefusedError
	_, err := Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: "a"}}.Connect})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, unix.EBUSY, refused.Errno)
	require.ErrorContains(t, err, "guest a is served by process")
	_, err = Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: "c", GPU: 1}}.Connect})
	require.ErrorIs(t, err, unix.ENODEV)
	c := join(t, socket, "c")
	_, err = Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: "d"}}.Connect})
	require.ErrorIs(t, err, unix.ENOSPC)
	c.Close()
	_, err = Listen(socket, 0o600)
	require.ErrorContains(t, err, "in use")
}

// A process of another user is refused, whatever the socket's permissions say.
func TestSameUser(t *testing.T) {
	us, root, other := uint32(os.Getuid()), uint32(0), uint32(os.Getuid()+1)
	for uid, ok := range map[uint32]bool{us: true, root: true, other: false} {
		as, err := SameUser(Peer{UID: uid}, Hello{Share: sched.Share{Weight: 3}})
		if ok {
			require.NoError(t, err)
			require.Equal(t, Admission{Share: sched.Share{Weight: 3}, Payer: fmt.Sprintf("user %d", uid)}, as)
		} else {
			require.ErrorIs(t, err, unix.EACCES)
		}
	}
}

// What does not speak the protocol is disconnected, and nothing is left of it.
func TestStrangers(t *testing.T) {
	noLeaks(t)
	_, socket := serve(t, Config{})
	good := join(t, socket, "good")
	h := Hello{Name: "x"}
	hello := h.encode()
	newer := h.encode()
	newer[4]++
	for name, c := range map[string]struct {
		first []byte
		then  []byte
		want  unix.Errno
	}{
		"garbage":      {first: []byte("GET / HTTP/1.0\r\n"), want: unix.EINVAL},
		"version":      {first: newer, want: unix.EPROTO},
		"then garbage": {first: hello, then: []byte{1}},
		"then hello":   {first: hello, then: hello},
		"then grant":   {first: hello, then: message{op: opGrant}.append(nil)},
		"then long":    {first: hello, then: make([]byte, 4096)},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
			require.NoError(t, err)
			sock, err := newSocket(conn, true)
			require.NoError(t, err)
			defer sock.close()
			// With a descriptor, which nobody wants.
			_, _, err = conn.WriteMsgUnix(c.first, unix.UnixRights(int(os.Stdin.Fd())), nil)
			require.NoError(t, err)
			m, fd, err := receiveWith(conn)
			require.NoError(t, err)
			if c.then == nil {
				require.Equal(t, opRefuse, m.op)
				require.Equal(t, uint32(c.want), m.value)
			} else {
				require.Equal(t, opWelcome, m.op)
				require.NoError(t, unix.Close(fd))
				_, err = conn.Write(c.then)
				require.NoError(t, err)
			}
			_, err = sock.receive()
			require.Error(t, err, "it is disconnected")
		})
	}
	run(good, Compute, 0)
}

// Backends are killed at random, one with the token: the others go on.
func TestKilledBackends(t *testing.T) {
	noLeaks(t)
	s, socket := serve(t, Config{})
	survivor := join(t, socket, "survivor")
	children := map[string]*process{}
	start := func(kind, name string) { children[name] = spawn(t, kind, socket, name) }
	start("works", "w0")
	start("works", "w1")
	start("holds", "h")
	for round := range 20 {
		eventually(t, "the holder has its turn", func() bool { return slices.Equal(s.Stats()[0].Engines[Compute].Holders, []string{"h"}) })
		granted := survivor.Enter(Compute, false)
		require.NotNil(t, granted)
		time.Sleep(rand.N(2 * ms))
		children["h"].kill()
		<-granted
		survivor.Leave(Compute, 0, 1, false)
		name := fmt.Sprintf("w%d", round%2)
		time.Sleep(rand.N(2 * ms))
		children[name].kill()
		eventually(t, "they are gone", func() bool { return len(s.Stats()[0].Guests) == 2 })
		start("works", name)
		start("holds", "h")
	}
	for _, c := range children {
		c.kill()
	}
	eventually(t, "they are gone", func() bool { return len(s.Stats()[0].Guests) == 1 })
	run(survivor, Compute, 0)
}

// The arbiter is killed at random, and started again in its place.
func TestKilledArbiter(t *testing.T) {
	noLeaks(t)
	dir, err := os.MkdirTemp("", "pvdrm-arbiter-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	arbiter := spawn(t, "arbiter", socket)
	stop := make(chan struct{})
	done := make(chan int)
	modes := []Lost{GoAlone, WaitForArbiter, WaitForArbiter}
	var gates []*Gate
	for i, lost := range modes {
		g, err := Join(GateConfig{Connect: Taking{Socket: socket, Hello: Hello{Name: fmt.Sprintf("g%d", i)}}.Connect, WhenLost: lost, MaxBackoff: 50 * ms})
		require.NoError(t, err)
		gates = append(gates, g)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					done <- n
					return
				default:
					run(g, Compute, 50*us)
					n++
				}
			}
		}()
	}
	joined := func() bool {
		for _, g := range gates {
			if !g.Stats().Joined {
				return false
			}
		}
		return true
	}
	for range 10 {
		eventually(t, "all are back", joined)
		time.Sleep(rand.N(20 * ms))
		arbiter.kill()
		eventually(t, "all notice", func() bool { return !gates[0].Stats().Joined && !gates[1].Stats().Joined && !gates[2].Stats().Joined })
		arbiter = spawn(t, "arbiter", socket)
	}
	eventually(t, "all are back", joined)
	close(stop)
	for range modes {
		require.Positive(t, <-done)
	}
	for _, g := range gates {
		require.GreaterOrEqual(t, g.Stats().Lost, uint64(10))
		g.Close()
	}
	arbiter.kill()
}
