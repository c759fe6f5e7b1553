package arbiter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// link carries messages between a backend and the arbiter.
type link interface {
	// send does not block: it fails when the other side does not read.
	send(m message) error
	// receive waits for the next message. It returns io.EOF at the end.
	receive() (message, error)
	// close ends both directions; it may be called more than once, and from
	// any goroutine.
	close()
}

// socket is a link over SOCK_SEQPACKET.
type socket struct {
	conn        *net.UnixConn
	raw         rawConn
	fromArbiter bool // what is received
	in          [messageBytes + maxText + 1]byte
}

type rawConn interface {
	Control(f func(fd uintptr)) error
}

func newSocket(conn *net.UnixConn, fromArbiter bool) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("arbiter socket: %w", err)
	}
	return &socket{conn: conn, raw: raw, fromArbiter: fromArbiter}, nil
}

func (s *socket) send(m message) error { return s.sendWith(m, nil) }

// sendWith sends a message with descriptors.
func (s *socket) sendWith(m message, fds []int) error {
	var buf [messageBytes + maxText]byte
	b := m.append(buf[:0])
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var err error
	if failed := s.raw.Control(func(fd uintptr) {
		err = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}); failed != nil {
		return fmt.Errorf("sending %v: %w", m.op, failed)
	}
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("sending %v: the other side does not read", m.op)
	}
	if err != nil {
		return fmt.Errorf("sending %v: %w", m.op, err)
	}
	return nil
}

func (s *socket) receive() (message, error) {
	n, err := s.conn.Read(s.in[:])
	// The end of a seqpacket connection is a message without bytes.
	if err == nil && n == 0 || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
		return message{}, io.EOF
	}
	if err != nil {
		return message{}, err
	}
	return decodeMessage(s.in[:n], s.fromArbiter)
}

// receiveWith is receive, also of one descriptor; fd is -1 if there was none.
func (s *socket) receiveWith() (m message, fd int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := s.conn.ReadMsgUnix(s.in[:], oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return m, -1, err
	}
	fds, err := receivedFDs(oob[:oobn])
	if err != nil {
		return m, -1, err
	}
	m, err = decodeMessage(s.in[:n], s.fromArbiter)
	if err == nil && (len(fds) > 1 || flags&unix.MSG_CTRUNC != 0) {
		err = fmt.Errorf("%v with more than a descriptor: %w", m.op, ErrWire)
	}
	if err != nil || len(fds) == 0 {
		for _, fd := range fds {
			_ = unix.Close(fd) // not wanted
		}
		return m, -1, err
	}
	return m, fds[0], nil
}

func receivedFDs(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	for _, m := range msgs {
		got, err := unix.ParseUnixRights(&m)
		if err == nil { // other kinds of control messages are of no interest
			fds = append(fds, got...)
		}
	}
	return fds, nil
}

func (s *socket) close() { _ = s.conn.Close() } // nothing is written that could be lost

// Peer is the process at the other end of a connection, as the host's kernel
// knows it: as it was when it connected.
type Peer struct {
	PID int32
	UID uint32
	GID uint32
}

func (s *socket) peer() (Peer, error) {
	var cred *unix.Ucred
	var err error
	if failed := s.raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil {
		return Peer{}, fmt.Errorf("who connected: %w", failed)
	}
	if err != nil {
		return Peer{}, fmt.Errorf("who connected: %w", os.NewSyscallError("getsockopt", err))
	}
	return Peer{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}, nil
}

// Listen opens the socket at path, for the given permissions. A socket that an
// arbiter left behind is replaced; one that answers is an error.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	return listen("unixpacket", path, mode)
}

func listen(network, path string, mode os.FileMode) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: network}
	if c, err := net.DialUnix(network, nil, addr); err == nil {
		_ = c.Close() // it was a question only
		return nil, fmt.Errorf("%s is in use by another arbiter: choose another socket or end that one", path)
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the stale socket: %w", err)
		}
	}
	l, err := net.ListenUnix(network, addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close() // the chmod is what to report
		return nil, fmt.Errorf("protecting the socket: %w", err)
	}
	return l, nil
}

// dial connects to an arbiter, says hello and returns the page it gave. The error
// is a *RefusedError if there is one, but it did not answer as it should.
func dial(path string, h *Hello, limit time.Duration) (*socket, *page, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the arbiter: %w", err)
	}
	s, err := newSocket(conn, true)
	if err != nil {
		_ = conn.Close() // err is what to report
		return nil, nil, err
	}
	p, err := greet(s, h, limit)
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		// There is an arbiter, whatever is wrong with it.
		err = &RefusedError{unix.ECONNRESET, err.Error()}
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, p, nil
}

// RefusedError says that an arbiter is there but does not want this backend.
type RefusedError struct {
	Errno unix.Errno
	Text  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the arbiter: %s (%s)", e.Text, unix.ErrnoName(e.Errno))
}

// Unwrap makes errors.Is work with the number.
func (e *RefusedError) Unwrap() error { return e.Errno }

func greet(s *socket, h *Hello, limit time.Duration) (*page, error) {
	// Deadlines fail only on closed connections, and then the next call says so.
	_ = s.conn.SetDeadline(time.Now().Add(limit))
	if _, err := s.conn.Write(h.encode()); err != nil {
		return nil, fmt.Errorf("greeting the arbiter: %w", err)
	}
	m, fd, err := s.receiveWith()
	if err != nil {
		return nil, fmt.Errorf("the arbiter's answer: %w", err)
	}
	if fd >= 0 {
		defer func() { _ = unix.Close(fd) }() // a mapping does not need it
	}
	switch {
	case m.op == opRefuse:
		return nil, &RefusedError{unix.Errno(m.value), m.text}
	case m.op != opWelcome || fd < 0:
		return nil, fmt.Errorf("the arbiter answers with %v: %w", m.op, ErrWire)
	}
	_ = s.conn.SetDeadline(time.Time{}) // as above
	return mapPage(fd)
}
