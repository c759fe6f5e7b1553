package arbiter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
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
	conn        stream
	raw         syscall.RawConn
	fromArbiter bool // the side from which it receives
	in          [messageBytes + maxText + 1]byte
}

// stream is a socket of package net or package os. A seat's connection is a file, because package
// net makes system calls on a descriptor that a confined backend may not.
type stream interface {
	io.ReadCloser
	syscall.Conn
	SetReadDeadline(t time.Time) error
}

func newSocket(conn stream, fromArbiter bool) (*socket, error) {
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
	// An empty message is the end of a seqpacket connection.
	if err == nil && n == 0 || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return message{}, io.EOF
	}
	if err != nil {
		return message{}, err
	}
	return decodeMessage(s.in[:n], s.fromArbiter)
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

func (s *socket) close() { _ = s.conn.Close() } // no written data can be lost

// Peer is the process at the other end of a connection, as the host's kernel
// knows it: as it was when it connected.
type Peer struct {
	PID int32
	UID uint32
	GID uint32
}

func (s *socket) peer() (Peer, error) { return peerOf(s.raw) }

// Listen opens the socket at path, for the given permissions. A socket that an
// arbiter left behind is replaced; one that answers is an error.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	return listen("unixpacket", path, mode)
}

func listen(network, path string, mode os.FileMode) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: network}
	if c, err := net.DialUnix(network, nil, addr); err == nil {
		_ = c.Close() // this was only a probe
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
		_ = l.Close() // the error of chmod is the one to report
		return nil, fmt.Errorf("protecting the socket: %w", err)
	}
	return l, nil
}
