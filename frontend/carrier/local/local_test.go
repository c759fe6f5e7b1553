package local

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// fake is a backend that does what a test says. It serves one client.
type fake struct {
	t      *testing.T
	path   string
	listen *net.UnixListener
	sock   *net.UnixConn // of the client
	kick   *os.File      // reading end: the client rings
	notify *os.File      // writing end: the backend rings
	name   string        // of the client, from its hello
}

// reply is an answer with what goes along.
type reply struct {
	m    hypercall.LocalMessage
	tail []byte
	fds  []int
	raw  []byte // instead of all that

	silent bool // there is no answer
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-") // t.TempDir may be too long for a socket's name
	require.NoError(t, err)
	f := &fake{t: t, path: filepath.Join(dir, "gpu")}
	f.listen, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: f.path, Net: "unixpacket"})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.listen.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	return f
}

// accept takes a client and answers its hello.
func (f *fake) accept(answer func(hypercall.LocalMessage) reply) {
	sock, err := f.listen.AcceptUnix()
	if err != nil {
		f.t.Error(err)
		return
	}
	f.sock = sock
	m, rest, fds := f.hear()
	f.name = string(rest)
	closeAll(fds)
	f.say(answer(m))
}

// hear receives a request.
func (f *fake) hear() (m hypercall.LocalMessage, rest []byte, fds []int) {
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := f.sock.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return m, nil, nil
	}
	if fds, err = received(oob[:oobn]); err == nil {
		m, rest, err = hypercall.DecodeLocal(buf[:n])
	}
	if err != nil {
		f.t.Error(err)
	}
	return m, rest, fds
}

func (f *fake) say(r reply) {
	if r.silent {
		return
	}
	b := r.raw
	if b == nil {
		b = append(r.m.Encode(), r.tail...)
	}
	// A client that has hung up shows in its test.
	_, _, _ = f.sock.WriteMsgUnix(b, unix.UnixRights(r.fds...), nil)
}

// pipes makes the pipes, and returns the ends of the client.
func (f *fake) pipes() []int {
	var kick, notify [2]int
	if err := unix.Pipe2(kick[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		f.t.Error(err)
	}
	if err := unix.Pipe2(notify[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		f.t.Error(err)
	}
	f.kick, f.notify = os.NewFile(uintptr(kick[0]), "kick"), os.NewFile(uintptr(notify[1]), "notify")
	return []int{kick[1], notify[0]}
}

func capset() []byte {
	return hypercall.Capset{Major: hypercall.VersionMajor, MaxRing: hypercall.MaxRingBytes, MaxChannels: hypercall.MaxChannels}.Encode()
}

// greet is the right answer to a hello.
func (f *fake) greet(m hypercall.LocalMessage) reply {
	return reply{m: hypercall.LocalMessage{Op: m.Op, Version: hypercall.LocalVersion}, tail: capset(), fds: f.pipes()}
}

// hangUp closes the backend's ends.
func (f *fake) hangUp() {
	for _, c := range []interface{ Close() error }{f.sock, f.kick, f.notify} {
		_ = c.Close() // a test may have closed it
	}
}

// connect opens a carrier to the backend. At the end of the test no descriptor is left.
func connect(t *testing.T) (*fake, *Carrier) {
	t.Helper()
	f := newFake(t)
	before := descriptors(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var r reply
		f.accept(func(m hypercall.LocalMessage) reply {
			r = f.greet(m)
			return r
		})
		closeAll(r.fds) // the client has its own
	}()
	c, err := Open(f.path)
	require.NoError(t, err)
	<-done
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		f.hangUp()
		require.Equal(t, before, descriptors(t))
	})
	return f, c
}

func descriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(to, "anon_inode") && !strings.HasPrefix(to, "/proc/") {
			n++
		}
	}
	return n
}

func TestHandshake(t *testing.T) {
	f, c := connect(t)
	require.Equal(t, "local "+f.path, c.Name())
	require.EqualValues(t, hypercall.VersionMajor, c.Capset().Major)
	require.Contains(t, f.name, "[", "the name of the program and its number")
	require.LessOrEqual(t, len(f.name), hypercall.MaxClientName)
	require.EqualValues(t, 1, c.Doorbells())
	require.False(t, c.SleepExits())
	require.NoError(t, c.Settle())
}

func TestHandshakeFails(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, unix.ENODEV)
	require.ErrorContains(t, err, "start one with")

	hello := hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion}
	other := hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion + 1}
	for _, test := range []struct {
		name string
		r    reply
		fds  int
		want string
	}{
		{name: "no descriptors", r: reply{m: hello, tail: capset()}, want: "0 descriptors, want 2"},
		{name: "too few descriptors", r: reply{m: hello, tail: capset()}, fds: 1, want: "1 descriptors, want 2"},
		{name: "too many descriptors", r: reply{m: hello, tail: capset()}, fds: 4, want: "4 descriptors, want 2"},
		{name: "another version", r: reply{m: other, tail: capset()}, fds: 2, want: "install the same version"},
		{name: "refused version", r: reply{m: hypercall.LocalMessage{Op: hypercall.LocalHello, Errno: uint16(unix.EPROTONOSUPPORT)}}, want: "install the same version"},
		{name: "refusal with descriptors", r: reply{m: hypercall.LocalMessage{Op: hypercall.LocalHello, Errno: uint16(unix.EBUSY)}}, fds: 2, want: "busy"},
		{name: "no capset", r: reply{m: hello}, fds: 2, want: "capset"},
		{name: "answer to another request", r: reply{m: hypercall.LocalMessage{Op: hypercall.LocalGrant}, tail: capset()}, fds: 2, want: "answer to operation 2"},
		{name: "garbage", r: reply{raw: []byte("garbage")}, fds: 2, want: "local carrier"},
		{name: "hang-up", r: reply{silent: true}, want: "gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			before := descriptors(t)
			null, err := os.Open(os.DevNull)
			require.NoError(t, err)
			for range test.fds {
				test.r.fds = append(test.r.fds, int(null.Fd()))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.accept(func(hypercall.LocalMessage) reply { return test.r })
				_ = f.sock.Close() // all is said
			}()
			_, err = Open(f.path)
			require.ErrorContains(t, err, test.want)
			<-done
			require.NoError(t, null.Close())
			require.Equal(t, before, descriptors(t))
		})
	}
}

// serve answers requests until the client is gone.
func (f *fake) serve(answer func(m hypercall.LocalMessage, rest []byte, fds []int) reply) {
	for {
		m, rest, fds := f.hear()
		if m.Op == 0 {
			return
		}
		r := answer(m, rest, fds)
		f.say(r)
		closeAll(fds)
	}
}

func TestGrants(t *testing.T) {
	f, c := connect(t)
	grants := make(chan []byte, 10) // the backend's mappings
	freed := make(chan uint32, 10)
	given := uint32(0)
	go f.serve(func(m hypercall.LocalMessage, _ []byte, fds []int) reply {
		answer := hypercall.LocalMessage{Op: m.Op}
		switch m.Op {
		case hypercall.LocalGrant:
			var st unix.Stat_t
			if err := unix.Fstat(fds[0], &st); err != nil {
				f.t.Error(err)
			}
			seals, _ := unix.FcntlInt(uintptr(fds[0]), unix.F_GET_SEALS, 0)
			if want := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL; seals&want != want {
				f.t.Errorf("seals %#x", seals)
			}
			mem, err := unix.Mmap(fds[0], 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				f.t.Error(err)
			}
			grants <- mem
			given++
			answer.ID, answer.Size = given, uint64(st.Size)
		case hypercall.LocalExport:
			return reply{m: answer, fds: []int{int(f.kick.Fd())}} // any descriptor
		case hypercall.LocalFree:
			freed <- m.ID
			if m.ID == 7 {
				answer.Errno = uint16(unix.ENOENT)
			}
		}
		return reply{m: answer}
	})
	p, err := c.Alloc(8192)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.ID)
	require.Len(t, p.Mem, 8192)
	p.Mem[8191] = 5
	first := <-grants
	require.EqualValues(t, 5, first[8191])

	fd, err := c.Export(p)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))

	shared, err := newMemfd(4096)
	require.NoError(t, err)
	again, err := c.Import(shared)
	require.NoError(t, err)
	require.NoError(t, unix.Close(shared), "the descriptor stays the caller's")
	require.Len(t, again.Mem, 4096)
	_, err = c.Import(-1)
	require.Error(t, err)

	require.NoError(t, c.Attach(p, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: p.ID}))
	require.NoError(t, c.Free(p))
	require.NoError(t, c.Free(again))
	require.EqualValues(t, 1, <-freed)
	require.EqualValues(t, 2, <-freed)
	require.ErrorIs(t, c.free(7), unix.ENOENT)
	require.NoError(t, unix.Munmap(first))
	require.NoError(t, unix.Munmap(<-grants))
}

func TestDoorbells(t *testing.T) {
	f, c := connect(t)
	before := c.Doorbells()
	for range 100_000 { // more than a pipe takes: it is ringing already
		require.NoError(t, c.Kick())
	}
	require.Equal(t, before+100_000, c.Doorbells())
	b := make([]byte, 1)
	_, err := f.kick.Read(b)
	require.NoError(t, err)

	_, err = f.notify.Write(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, c.Sleep(-1), "one wake for all rings")
	begin := time.Now()
	require.NoError(t, c.Sleep(20*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 10*time.Millisecond, "the rings were taken")

	woken := make(chan error, 1)
	go func() { woken <- c.Sleep(-1) }()
	_, err = f.notify.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, <-woken)
}

func TestBackendHangsUp(t *testing.T) {
	f, c := connect(t)
	slept := make(chan error, 1)
	go func() { slept <- c.Sleep(-1) }()
	f.hangUp()
	require.ErrorIs(t, <-slept, unix.ENODEV)
	require.ErrorIs(t, c.Sleep(-1), unix.ENODEV)
	_, err := c.Alloc(4096)
	require.ErrorIs(t, err, unix.ENODEV)
	require.ErrorIs(t, c.Attach(nil, hypercall.Doorbell{}), unix.ENODEV)
}

// The client ends all that waits, from another goroutine.
func TestInterrupt(t *testing.T) {
	f, c := connect(t)
	waits := []func() error{
		func() error { return c.Sleep(-1) },
		func() error { _, err := c.Export(&carrier.Pages{ID: 1}); return err },
	}
	ended := make(chan error, len(waits))
	for _, wait := range waits {
		go func() { ended <- wait() }()
	}
	_, _, _ = f.hear() // the export; it gets no answer
	c.Interrupt()
	c.Interrupt()
	for range waits {
		require.ErrorIs(t, <-ended, unix.ENODEV)
	}
}

// Descriptors that no request asks for are closed, and wrong answers fail the call.
func TestHostileAnswers(t *testing.T) {
	f, c := connect(t)
	before := descriptors(t)
	wrong := make(chan func(op hypercall.LocalOp) reply, 1)
	go f.serve(func(m hypercall.LocalMessage, _ []byte, _ []int) reply {
		select {
		case answer := <-wrong:
			return answer(m.Op)
		default: // a call that goes on, to clean up
			return reply{m: hypercall.LocalMessage{Op: m.Op}}
		}
	})
	calls := map[string]func() error{
		"alloc":  func() error { _, err := c.Alloc(4096); return err },
		"free":   func() error { return c.free(1) },
		"attach": func() error { return c.Attach(nil, hypercall.Doorbell{}) },
		"export": func() error {
			fd, err := c.Export(&carrier.Pages{ID: 1})
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
	}
	null := int(f.kick.Fd())
	for name, call := range calls {
		for what, r := range map[string]func(op hypercall.LocalOp) reply{
			"garbage": func(hypercall.LocalOp) reply { return reply{raw: []byte("garbage"), fds: []int{null, null}} },
			"another request": func(hypercall.LocalOp) reply {
				return reply{m: hypercall.LocalMessage{Op: hypercall.LocalHello}, fds: []int{null}}
			},
			"an error": func(op hypercall.LocalOp) reply {
				return reply{m: hypercall.LocalMessage{Op: op, Errno: 5}, fds: []int{null, null, null}}
			},
		} {
			wrong <- r
			require.Error(t, call(), "%s: %s", name, what)
		}
		wrong <- func(op hypercall.LocalOp) reply {
			return reply{m: hypercall.LocalMessage{Op: op, Size: 1 << 60}, fds: []int{null, null, null}}
		}
		if err := call(); name == "alloc" || name == "export" {
			require.Error(t, err, name)
		}
		require.Equal(t, before, descriptors(t), name)
	}
}
