package local

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"pvdrm/gem/quota"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
	"pvdrm/internal/sample"
	"pvdrm/internal/unixsock"
)

// peer is a client that may say anything.
type peer struct {
	t    testing.TB
	sock *net.UnixConn
	left chan struct{} // closed when the server is done with it
}

// newServer makes a server with a device. At the end of the test nothing is left of its clients.
func newServer(t testing.TB, limits quota.Limits) *Server {
	t.Helper()
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20})
	require.NoError(t, err)
	s := NewServer(Config{Device: device, Log: zap.NewNop(), Limits: limits})
	t.Cleanup(func() {
		s.populator.work.Wait()
		require.Zero(t, s.Stats().GrantedBytes)
		require.Empty(t, s.memory)
		for _, q := range s.group.Stats().Quotas {
			require.Zero(t, q.Used, q.Resource)
		}
		require.NoError(t, device.Close())
	})
	return s
}

// join connects a client. The end of the test waits until the server is done with it.
func (s *Server) join(t testing.TB) *peer {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	p := &peer{t: t, sock: unixConn(t, fds[0]), left: make(chan struct{})}
	there := unixConn(t, fds[1])
	go func() {
		defer close(p.left)
		s.serve(context.Background(), there)
	}()
	t.Cleanup(p.leave)
	return p
}

func unixConn(t testing.TB, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	require.NoError(t, err)
	return c.(*net.UnixConn)
}

// leave hangs up and waits until the server has noticed.
func (p *peer) leave() {
	_ = p.sock.Close() // tests close it too
	<-p.left
}

// ask sends a message and returns the answer; the descriptors that come along are closed.
func (p *peer) ask(m hypercall.LocalMessage, rest []byte, fds ...int) hypercall.LocalMessage {
	p.t.Helper()
	require.NoError(p.t, p.say(append(m.Encode(), rest...), fds...))
	answer, got, err := p.hear()
	unixsock.Close(got)
	require.NoError(p.t, err)
	require.Equal(p.t, m.Op, answer.Op)
	return answer
}

func (p *peer) say(b []byte, fds ...int) error {
	_, _, err := p.sock.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	return err
}

func (p *peer) hear() (m hypercall.LocalMessage, fds []int, err error) {
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := p.sock.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return m, nil, net.ErrClosed
	}
	if fds, err = unixsock.Descriptors(oob[:oobn]); err == nil {
		m, _, err = hypercall.DecodeLocal(buf[:n])
	}
	return m, fds, err
}

// hello greets, and keeps the pipes until the test ends.
func (p *peer) hello() (pipes []*os.File) {
	p.t.Helper()
	require.NoError(p.t, p.say(hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion}.Encode()))
	m, fds, err := p.hear()
	require.NoError(p.t, err)
	for _, fd := range fds {
		pipes = append(pipes, os.NewFile(uintptr(fd), "pipe"))
	}
	p.t.Cleanup(func() {
		for _, f := range pipes {
			_ = f.Close() // tests close them too
		}
	})
	require.Zero(p.t, m.Errno)
	require.EqualValues(p.t, hypercall.LocalVersion, m.Version)
	require.Len(p.t, pipes, 2)
	return pipes
}

// requireGone waits until the server has hung up.
func (p *peer) requireGone() {
	p.t.Helper()
	select {
	case <-p.left:
	case <-time.After(time.Minute):
		require.Fail(p.t, "the client is still served")
	}
}

// attach attaches a ring and returns its memory.
func (p *peer) attach() []byte {
	p.t.Helper()
	layout := hypercall.DefaultLayout
	size := int64(layout.Bytes()+4095) &^ 4095
	fd := memfd(p.t, size, wantSeals)
	ring := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, fd)
	require.Zero(p.t, ring.Errno)
	d := hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: ring.ID, Layout: layout}
	require.Zero(p.t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalAttach}, d.Encode()).Errno)
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func TestVersions(t *testing.T) {
	s := newServer(t, quota.Limits{})
	p := s.join(t)
	for _, version := range []uint32{0, hypercall.LocalVersion - 1, hypercall.LocalVersion + 1} {
		answer := p.ask(hypercall.LocalMessage{Op: hypercall.LocalHello, Version: version}, nil)
		require.EqualValues(t, unix.EPROTONOSUPPORT, answer.Errno)
		require.EqualValues(t, hypercall.LocalVersion, answer.Version)
	}
	p.hello()
	require.NoError(t, p.say(hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion}.Encode()))
	p.requireGone()
}

// Descriptors come where they are expected, as many as are expected, and all are closed.
func TestDescriptors(t *testing.T) {
	s := newServer(t, quota.Limits{})
	p := s.join(t)
	fd := memfd(t, 4096, wantSeals)
	refused := func(op hypercall.LocalOp, fds ...int) {
		t.Helper()
		m := hypercall.LocalMessage{Op: op, Version: hypercall.LocalVersion}
		require.EqualValues(t, unix.EINVAL, p.ask(m, nil, fds...).Errno)
	}
	refused(hypercall.LocalHello, fd)
	p.hello()
	before := openFDs(t)
	refused(hypercall.LocalGrant)
	refused(hypercall.LocalGrant, fd, fd)
	refused(hypercall.LocalFree, fd)
	refused(hypercall.LocalAttach, fd)
	refused(hypercall.LocalExport, fd, fd, fd, fd)
	requireClosed(t, before)

	granted := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, fd)
	require.Zero(t, granted.Errno)
	require.EqualValues(t, 4096, granted.Size)
	again := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, fd)
	require.Zero(t, again.Errno)
	requireClosed(t, before+1) // the same memory twice
	require.Zero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: granted.ID}, nil).Errno)
	require.Zero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalExport, ID: again.ID}, nil).Errno)
	require.Zero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: again.ID}, nil).Errno)
	require.EqualValues(t, unix.ENOENT, p.ask(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: again.ID}, nil).Errno)
	requireClosed(t, before)

	// More than there is room for: those that did not fit were never opened.
	require.NoError(t, p.say(hypercall.LocalMessage{Op: hypercall.LocalGrant}.Encode(), fd, fd, fd, fd, fd, fd))
	p.requireGone()
	requireClosed(t, before)
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}

// requireClosed waits until no more than so many descriptors are open: what a message brought
// is closed after its answer, and other tests' connections after these tests.
func requireClosed(t *testing.T, most int) {
	t.Helper()
	for began := time.Now(); openFDs(t) > most; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(began), 5*time.Minute, "descriptors stay open")
	}
}

// The memory of a ring is charged for as long as it is mapped, although the client has freed it.
func TestRingStaysCharged(t *testing.T) {
	s := newServer(t, quota.Limits{quota.Granted: 1 << 20})
	p := s.join(t)
	p.hello()
	p.attach()
	used := s.used(quota.Granted)
	require.NotZero(t, used)
	require.Zero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: 1}, nil).Errno)
	require.Equal(t, used, s.used(quota.Granted))
	p.leave()
	require.Zero(t, s.used(quota.Granted))
}

// FuzzClient sends what a client likes: messages of any kind with any descriptors. Whatever the
// server takes, it has given back when the client is gone.
func FuzzClient(f *testing.F) {
	hello := hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion}.Encode()
	message := func(kinds string, b []byte) []byte {
		return append(append([]byte{byte(len(kinds)), byte(len(b))}, kinds...), b...)
	}
	seed := message("", hello)
	for op := hypercall.LocalHello; op <= hypercall.LocalExport; op++ {
		for _, kinds := range []string{"", "g", "gg", "p", "u", "P", "d", "r", "gpuPdr"} {
			f.Add(append(seed[:len(seed):len(seed)], message(kinds, hypercall.LocalMessage{Op: op, ID: 1, Size: 4096}.Encode())...))
		}
	}
	attach := append(hypercall.LocalMessage{Op: hypercall.LocalAttach}.Encode(),
		hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: 1, Layout: hypercall.DefaultLayout}.Encode()...)
	ring := append(seed, message("r", hypercall.LocalMessage{Op: hypercall.LocalGrant}.Encode())...)
	ring = append(ring, message("", attach)...)
	ring = append(ring, message("", hypercall.LocalMessage{Op: hypercall.LocalFree, ID: 1}.Encode())...)
	f.Add(ring)
	f.Fuzz(func(t *testing.T, script []byte) {
		s := newServer(t, quota.Limits{quota.Granted: 2 << 20})
		p := s.join(t)
		kinds := descriptorKinds(t)
		for len(script) >= 2 {
			n, size := int(script[0]), int(script[1])
			script = script[2:]
			if n > 16 || n+size > len(script) || size == 0 {
				return
			}
			var fds []int
			for _, k := range script[:n] {
				fds = append(fds, kinds[int(k)%len(kinds)])
			}
			if p.say(script[n:][:size], fds...) != nil {
				return
			}
			script = script[n+size:]
			_, got, err := p.hear()
			unixsock.Close(got)
			if err != nil {
				return
			}
		}
	})
}

// descriptorKinds are what a client may send, by the low bits of a letter.
func descriptorKinds(t *testing.T) [8]int {
	t.Helper()
	good := memfd(t, 8192, wantSeals)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	t.Cleanup(func() { unixsock.Close(pipe[:]) })
	kinds := [8]int{}
	for i, fd := range []int{
		pipe[0], // p, P
		pipe[1],
		memfd(t, 1<<20, wantSeals), // r
		open(t, procPath(good), unix.O_PATH),
		open(t, "/dev/null", unix.O_RDWR), // d
		memfd(t, 4096, 0),                 // u
		open(t, procPath(good), unix.O_RDONLY),
		good, // g
	} {
		kinds[i] = fd
	}
	return kinds
}

// Clients that come and go, or break the protocol, do not fill the log.
func TestFloodOfClients(t *testing.T) {
	out, written := observer.New(zap.InfoLevel)
	s := NewServer(Config{Log: zap.New(out)})
	const clients = 100
	for range clients {
		p := s.join(t)
		require.NoError(t, p.say([]byte("garbage")))
		p.requireGone()
	}
	require.Equal(t, sample.Burst, written.FilterMessage("client disconnected").Len())
	require.Equal(t, sample.Burst, written.Len())
}
