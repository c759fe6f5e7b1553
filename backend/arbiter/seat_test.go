package arbiter

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// take takes a seat for a guest.
func take(t *testing.T, socket, name string) *Seat {
	t.Helper()
	seat, err := Take(context.Background(), Taking{Socket: socket, Hello: Hello{Name: name}})
	require.NoError(t, err)
	return seat
}

// copied is a seat as another process gets it: new descriptors of the same files.
func copied(t *testing.T, s *Seat) *Seat {
	t.Helper()
	dup := func(f *os.File) *os.File {
		fd := -1
		require.NoError(t, withFD(f, func(from int) (err error) {
			fd, err = unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 0)
			return err
		}))
		return os.NewFile(uintptr(fd), f.Name())
	}
	return &Seat{Conn: dup(s.Conn), Page: dup(s.Page)}
}

// What somebody else has taken serves as if the Gate had connected, also again.
func TestSeat(t *testing.T) {
	noLeaks(t)
	s, socket := serve(t, Config{})
	var parents []*Seat
	g, err := Join(GateConfig{WhenLost: WaitForArbiter, Connect: func() (*Seat, error) {
		seat, err := Take(context.Background(), Taking{Socket: socket, Hello: Hello{Name: "a", Share: sched.Share{Weight: 3}}})
		if err == nil {
			parents = append(parents, copied(t, seat))
		}
		return seat, err
	}})
	require.NoError(t, err)
	run(g, Compute, 0)
	require.Equal(t, uint32(3), s.Stats()[0].Guests[0].Share.Weight)
	s.arenas[0].mu.Lock()
	s.arenas[0].expel(s.arenas[0].members["a"], "for the test")
	s.arenas[0].mu.Unlock()
	eventually(t, "it is back", func() bool { return g.Stats().Joined && g.Stats().Lost == 1 })
	run(g, Compute, 0)
	require.Len(t, parents, 2)
	g.Close()
	require.Len(t, s.Stats()[0].Guests, 1, "the seat is taken while anybody has it")
	for _, p := range parents {
		require.NoError(t, p.Close())
	}
	eventually(t, "the seat is free", func() bool { return len(s.Stats()[0].Guests) == 0 })
}

// A page that could go away, or is none, is refused, and nothing is left of the seat.
func TestSeatsWithBadPages(t *testing.T) {
	noLeaks(t)
	_, socket := serve(t, Config{})
	memfd := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return os.NewFile(uintptr(fd), "test")
	}
	for name, page := range map[string]func() *os.File{
		"not sealed":    func() *os.File { return memfd(pageBytes, 0) },
		"can shrink":    func() *os.File { return memfd(pageBytes, pageSeals&^unix.F_SEAL_SHRINK) },
		"can be sealed": func() *os.File { return memfd(pageBytes, pageSeals&^unix.F_SEAL_SEAL) },
		"small":         func() *os.File { return memfd(pageBytes/2, pageSeals) },
		"large":         func() *os.File { return memfd(2*pageBytes, pageSeals) },
		"read-only":     func() *os.File { return memfd(pageBytes, pageSeals|unix.F_SEAL_WRITE) },
		"a file": func() *os.File {
			f, err := os.CreateTemp(t.TempDir(), "page")
			require.NoError(t, err)
			require.NoError(t, f.Truncate(pageBytes))
			return f
		},
		"a directory": func() *os.File {
			f, err := os.Open(t.TempDir())
			require.NoError(t, err)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Join(GateConfig{Connect: func() (*Seat, error) {
				seat, err := Take(context.Background(), Taking{Socket: socket, Hello: Hello{Name: strings.ReplaceAll(name, " ", "-")}})
				if err != nil {
					return nil, err
				}
				defer func() { _ = seat.Page.Close() }() // for another
				return &Seat{Conn: seat.Conn, Page: page()}, nil
			}})
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, "shared page")
		})
	}
}

// An arbiter of a user who is not named is refused before it learns anything.
func TestArbiterOfAnotherUser(t *testing.T) {
	us := uint32(os.Geteuid())
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket, 0o600)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	heard := make(chan int, 1)
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			close(heard)
			return
		}
		n, _ := conn.Read(make([]byte, helloBytes)) // the end, if nothing was said
		_ = conn.Close()
		heard <- n
	}()
	_, err = Take(t.Context(), Taking{Socket: socket, Hello: Hello{Name: "a", Key: Key{1}}, Owners: []uint32{us + 1}})
	require.ErrorIs(t, err, unix.EPERM)
	require.Zero(t, <-heard)
}

// stranger is a user who is neither the tests' nor root.
const stranger = 65534

// needRoot skips a test in which asStranger is called.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "CI runs as root")
		t.Skip("being another user needs root")
	}
}

// asStranger calls f on a thread of another user.
func asStranger(t *testing.T, f func()) {
	t.Helper()
	var failed unix.Errno
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		const keep = ^uintptr(0)
		// Of this thread alone, unlike package unix's.
		if _, _, failed = unix.RawSyscall(unix.SYS_SETRESUID, keep, stranger, keep); failed == 0 {
			f()
		}
	}()
	<-done
	require.Zero(t, failed)
}

// strangersDir is a directory in which everybody may make sockets.
func strangersDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "pvdrm-arbiter-") // one that others can reach
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// It is the kernel that says whose arbiter it is.
func TestStrangersArbiter(t *testing.T) {
	needRoot(t)
	noLeaks(t)
	socket := filepath.Join(strangersDir(t), "s")
	var l *net.UnixListener
	var err error
	asStranger(t, func() { l, err = Listen(socket, 0o600) })
	require.NoError(t, err)
	s, err := NewServer(Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()

	taking := Taking{Socket: socket, Hello: Hello{Name: "a"}}
	_, err = taking.Connect()
	require.ErrorIs(t, err, unix.EPERM)
	_, err = Join(GateConfig{Connect: taking.Connect})
	require.ErrorIs(t, err, unix.EPERM, "a backend does not begin under it")
	taking.Owners = []uint32{0, stranger}
	seat, err := taking.Connect()
	require.NoError(t, err)
	require.NoError(t, seat.Close())
	cancel()
	require.NoError(t, <-served)
}

// Another user gets no seat and no answer to a command, whatever the permissions of the sockets.
func TestStrangerIsRefused(t *testing.T) {
	needRoot(t)
	noLeaks(t)
	socket := filepath.Join(strangersDir(t), "s")
	s, err := NewServer(Config{})
	require.NoError(t, err)
	l, err := Listen(socket, 0o666)
	require.NoError(t, err)
	control, err := ListenControl(socket + ControlSuffix)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(socket+ControlSuffix, 0o666))
	ctx, cancel := context.WithCancel(context.Background())
	ends := make(chan error)
	go func() { ends <- s.Serve(ctx, l) }()
	go func() { ends <- s.ServeControl(ctx, control) }()

	var seatErr, askErr error
	asStranger(t, func() {
		_, seatErr = Take(context.Background(), Taking{Socket: socket, Hello: Hello{Name: "a"}, Owners: []uint32{0}})
		_, askErr = Ask(context.Background(), socket+ControlSuffix, Command{Policy: "fifo"})
	})
	require.ErrorIs(t, seatErr, unix.EACCES)
	require.ErrorContains(t, askErr, "is of user 65534")
	require.Equal(t, DefaultPolicy, s.Stats()[0].Policy)
	_, err = Ask(context.Background(), socket+ControlSuffix, Command{Policy: "fifo"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, errors.Join(<-ends, <-ends))
}

// Arbiters that answer nonsense, or nothing, give no seat, and leave nothing behind.
func TestStrangeArbiters(t *testing.T) {
	noLeaks(t)
	for name, answer := range map[string]func(*net.UnixConn){
		"ends":               func(*net.UnixConn) {},
		"welcome, no page":   func(c *net.UnixConn) { _, _ = c.Write(message{op: opWelcome}.append(nil)) },
		"grant":              func(c *net.UnixConn) { _, _ = c.Write(message{op: opGrant}.append(nil)) },
		"garbage":            func(c *net.UnixConn) { _, _ = c.Write([]byte{1, 2, 3}) },
		"too long":           func(c *net.UnixConn) { _, _ = c.Write(make([]byte, 4096)) },
		"garbage with files": func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{1}, unix.UnixRights(0, 1), nil) },
		"refusal with a file": func(c *net.UnixConn) {
			_, _, _ = c.WriteMsgUnix(message{op: opRefuse, value: 1}.append(nil), unix.UnixRights(0), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := Listen(socket, 0o600)
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			go func() {
				if conn, err := l.AcceptUnix(); err == nil {
					_, _ = conn.Read(make([]byte, helloBytes)) // what a guest says is not of interest
					answer(conn)
					_ = conn.Close()
				}
			}()
			_, err = Take(t.Context(), Taking{Socket: socket, Hello: Hello{Name: "a"}})
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
		})
	}
	t.Run("silence", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := Listen(socket, 0o600) // nothing accepts
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*ms, cancel)
		_, err = Take(ctx, Taking{Socket: socket, Hello: Hello{Name: "a"}})
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
	})
	_, err := Take(t.Context(), Taking{Socket: filepath.Join(t.TempDir(), "s"), Hello: Hello{Name: "a"}})
	require.Error(t, err)
	require.False(t, errors.As(err, new(*RefusedError)), "there is none: one may come")
}

// A process that has only a seat acts for that guest alone: it neither becomes another one,
// nor changes what it is entitled to, nor administers. Trying ends its connection.
func TestSeatIsAllThereIs(t *testing.T) {
	noLeaks(t)
	s, socket := serve(t, Config{})
	other := join(t, socket, "other")
	heavy := uint32(sched.MaxWeight)
	command, err := json.Marshal(Command{Policy: "fifo", Guest: "other", Share: &ShareChange{Weight: &heavy}})
	require.NoError(t, err)
	hello := func(h Hello) []byte { return h.encode() }
	for name, attack := range map[string][]byte{
		"hello again":        hello(Hello{Name: "a"}),
		"with a larger wish": hello(Hello{Name: "a", Share: sched.Share{Weight: heavy, Reserve: 1}}),
		"another's name":     hello(Hello{Name: "other"}),
		"another seat":       hello(Hello{Name: "b"}),
		"a command":          command,
		"a command's length": append(command, make([]byte, messageBytes)...)[:messageBytes],
		"as the arbiter":     message{op: opGrant}.append(nil),
	} {
		t.Run(name, func(t *testing.T) {
			seat := take(t, socket, "a")
			_, err := seat.Conn.Write(attack)
			require.NoError(t, err)
			n, err := seat.Conn.Read(make([]byte, messageBytes))
			require.Zero(t, n)
			require.Error(t, err, "it is disconnected")
			require.NoError(t, seat.Close())
			eventually(t, "it is gone", func() bool { return len(s.Stats()[0].Guests) == 1 })
			st := s.Stats()[0]
			require.Equal(t, DefaultPolicy, st.Policy)
			require.Equal(t, "other", st.Guests[0].Name)
			require.Zero(t, st.Guests[0].Share)
			run(other, Compute, 0)
		})
	}
}

// A user has so many guests at most, of whatever names, and a place is free again when one leaves.
func TestGuestsPerUser(t *testing.T) {
	noLeaks(t)
	_, socket := serve(t, Config{MaxPerUser: 2, MaxBackends: 3})
	a, b := take(t, socket, "a"), take(t, socket, "b")
	_, err := Take(t.Context(), Taking{Socket: socket, Hello: Hello{Name: "c"}})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "2 guests")
	require.NoError(t, a.Close())
	var c *Seat
	eventually(t, "there is a place", func() bool {
		c, err = Take(context.Background(), Taking{Socket: socket, Hello: Hello{Name: "c"}})
		return err == nil
	})
	require.NoError(t, errors.Join(b.Close(), c.Close()))
}

// The counts of the door: by user, and of all.
func TestDoor(t *testing.T) {
	d := door{most: 3, mostPerUser: 2, users: map[uint32]*crowd{}}
	var visits []*visit
	enter := func(uid uint32) *visit {
		v, err := d.enter(uid)
		require.NoError(t, err)
		visits = append(visits, v)
		return v
	}
	for range 2 {
		require.NoError(t, enter(1).sit())
	}
	require.ErrorIs(t, enter(1).sit(), unix.ENOSPC)
	enter(1)
	_, err := d.enter(1)
	require.ErrorIs(t, err, unix.ENOSPC, "too many that say nothing")
	require.NoError(t, enter(2).sit())
	require.ErrorIs(t, enter(2).sit(), unix.ENOSPC, "three are all")
	_, err = d.enter(2)
	require.ErrorIs(t, err, unix.ENOSPC)
	for _, v := range visits {
		v.exit()
		v.exit()
	}
	require.Zero(t, d.all)
	require.Empty(t, d.users)
}
