// Package local is the frontend's end of the carrier for programs on the host:
// a Unix socket, memfds and pipes. See hypercall/local.go for the messages.
//
// Carrier.mu serialises requests on the socket. Sleep and Kick use the pipes
// only and take no lock.
package local

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// Carrier is a connection to a backend on the same host.
type Carrier struct {
	path      string
	capset    hypercall.Capset
	kick      int // writing end of a pipe, rings the backend
	notify    int // reading end of a pipe, rung by the backend
	socketFD  int // for poll: a hang-up means that the backend is gone
	doorbells atomic.Uint64

	mu   sync.Mutex
	sock *net.UnixConn
}

var _ carrier.Carrier = (*Carrier)(nil)

// Open connects to the backend that listens at path.
func Open(path string) (*Carrier, error) {
	sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("no backend at %s (start one with `pvdrm backend --local %s`, or run the program with `pvdrm run`): %w: %w", path, path, unix.ENODEV, err)
	}
	c := &Carrier{path: path, sock: sock, kick: -1, notify: -1, socketFD: -1}
	if err := c.hello(); err != nil {
		_ = c.Close() // err is what to report
		return nil, fmt.Errorf("greeting the backend at %s: %w", path, err)
	}
	return c, nil
}

func (c *Carrier) hello() error {
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return err
	}
	if err := raw.Control(func(fd uintptr) { c.socketFD = int(fd) }); err != nil {
		return err
	}
	answer, tail, fds, err := c.request(hypercall.LocalMessage{Op: hypercall.LocalHello, Version: hypercall.LocalVersion}, programName())
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("it does not speak version %d of the local carrier: install the same version of pvdrm here and there: %w", hypercall.LocalVersion, err)
	}
	if err != nil {
		return err
	}
	if len(fds) != 2 {
		closeAll(fds)
		return fmt.Errorf("%d descriptors, want 2: %w", len(fds), unix.EPROTO)
	}
	c.kick, c.notify = fds[0], fds[1]
	if answer.Version != hypercall.LocalVersion {
		return fmt.Errorf("it speaks version %d of the local carrier and this program version %d: install the same version of pvdrm here and there: %w",
			answer.Version, hypercall.LocalVersion, unix.EPROTONOSUPPORT)
	}
	c.capset, err = hypercall.DecodeCapset(tail)
	return err
}

// programName is this program's name, as ps shows it, and its process id: a backend
// with process ids of its own does not see that.
func programName() []byte {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		name = []byte("client")
	}
	name = fmt.Appendf(bytes.TrimSpace(name), "[%d]", os.Getpid())
	return name[:min(len(name), hypercall.MaxClientName)]
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // came with an answer that has no use for it
	}
}

// request sends m with what follows it and waits for the answer.
func (c *Carrier) request(m hypercall.LocalMessage, tail []byte, send ...int) (hypercall.LocalMessage, []byte, []int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doorbells.Add(1)
	var none hypercall.LocalMessage
	if _, _, err := c.sock.WriteMsgUnix(append(m.Encode(), tail...), unix.UnixRights(send...), nil); err != nil {
		return none, nil, nil, c.gone(err)
	}
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := c.sock.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return none, nil, nil, c.gone(err)
	}
	fds, err := received(oob[:oobn])
	if err != nil {
		return none, nil, nil, fmt.Errorf("answer of the backend: %w", err)
	}
	answer, rest, err := hypercall.DecodeLocal(buf[:n])
	if err == nil && answer.Op != m.Op {
		err = fmt.Errorf("answer to operation %d, asked for %d: %w", answer.Op, m.Op, unix.EPROTO)
	}
	if err == nil && answer.Errno != 0 {
		err = syscall.Errno(answer.Errno)
	}
	if err != nil {
		closeAll(fds)
		return none, nil, nil, err
	}
	return answer, rest, fds, nil
}

// received returns the descriptors that came with a message.
func received(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range msgs {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds, nil
}

func (c *Carrier) gone(err error) error {
	if err == nil {
		err = errors.New("connection closed")
	}
	return fmt.Errorf("the backend at %s is gone: %w: %w", c.path, unix.ENODEV, err)
}

// Name is part of carrier.Carrier.
func (c *Carrier) Name() string { return "local " + c.path }

// Capset is part of carrier.Carrier.
func (c *Carrier) Capset() hypercall.Capset { return c.capset }

// Doorbells is part of carrier.Carrier.
func (c *Carrier) Doorbells() uint64 { return c.doorbells.Load() }

// Attach is part of carrier.Carrier.
func (c *Carrier) Attach(_ *carrier.Pages, d hypercall.Doorbell) error {
	_, _, fds, err := c.request(hypercall.LocalMessage{Op: hypercall.LocalAttach}, d.Encode())
	closeAll(fds)
	return err
}

// Kick is part of carrier.Carrier.
func (c *Carrier) Kick() error {
	c.doorbells.Add(1)
	_, err := unix.Write(c.kick, []byte{1})
	switch {
	case err == nil, errors.Is(err, unix.EAGAIN): // full: it is ringing
		return nil
	case errors.Is(err, unix.EPIPE): // the other end is closed
		return c.gone(err)
	}
	return fmt.Errorf("ringing the backend: %w", err)
}

// Settle is part of carrier.Carrier: the backend answers each Alloc.
func (c *Carrier) Settle() error { return nil }

// SleepExits is part of carrier.Carrier: to sleep is to wait for a pipe.
func (c *Carrier) SleepExits() bool { return false }

// Sleep is part of carrier.Carrier.
func (c *Carrier) Sleep(timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	fds := []unix.PollFd{
		{Fd: int32(c.notify), Events: unix.POLLIN},
		{Fd: int32(c.socketFD), Events: unix.POLLRDHUP},
	}
	_, err := unix.Ppoll(fds, ts, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for the backend: %w", os.NewSyscallError("ppoll", err))
	}
	if fds[0].Revents&unix.POLLIN != 0 {
		var rings [4096]byte
		_, _ = unix.Read(c.notify, rings[:]) // empties it; what it says is in the ring
	}
	if fds[1].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0 {
		return c.gone(nil)
	}
	return nil
}

// Interrupt is part of carrier.Carrier: a socket that is not read any more looks
// hung up to all who wait for it.
func (c *Carrier) Interrupt() {
	_ = c.sock.CloseRead() // fails when the backend has hung up itself
}

// Close is part of carrier.Carrier.
func (c *Carrier) Close() error {
	for _, fd := range []int{c.kick, c.notify} {
		if fd >= 0 {
			_ = unix.Close(fd) // a pipe has nothing to flush
		}
	}
	c.kick, c.notify = -1, -1
	return c.sock.Close()
}
