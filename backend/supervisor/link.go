package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// link is one end of the connection between parent and child.
type link struct {
	conn      *net.UnixConn
	fromChild bool // the side from which it receives
	in        [maxMessage + 1]byte
}

// connection makes a pair of connected sockets, of a type such as unix.SOCK_STREAM.
func connection(kind int) (ours *net.UnixConn, theirs *os.File, err error) {
	fd, theirs, err := unixsock.Pair(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("sockets for the backend: %w", err)
	}
	if ours, err = unixsock.Conn(fd); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// sendLimit is how long the other side may let a message wait.
const sendLimit = 5 * time.Second

// send sends a message with descriptors.
func (l *link) send(m message, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendLimit)) // fails if it is closed, and then so does the next call
	if _, _, err := l.conn.WriteMsgUnix(m.append(nil), oob, nil); err != nil {
		return fmt.Errorf("sending %v: %w", m.op, err)
	}
	return nil
}

// receive waits for a message, which must have as many descriptors as its operation is to have. The
// error is io.EOF at the end.
func (l *link) receive() (m message, fds []*os.File, err error) {
	var oob []byte // none from a child: the kernel drops its descriptors
	if !l.fromChild {
		const most = 2
		oob = make([]byte, unix.CmsgSpace(4*most))
	}
	n, controls, flags, _, err := l.conn.ReadMsgUnix(l.in[:], oob)
	switch {
	case err == nil && n == 0, errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return m, nil, io.EOF
	case err != nil:
		return m, nil, fmt.Errorf("the link: %w", err)
	}
	if controls > 0 {
		if fds, err = received(oob[:controls]); err != nil {
			return m, nil, err
		}
	}
	m, err = decode(l.in[:n], l.fromChild)
	if err == nil && (flags&unix.MSG_CTRUNC != 0 || len(fds) != operations[m.op].fds) {
		err = fmt.Errorf("%w: %v with %d descriptors", errWire, m.op, len(fds))
	}
	if err != nil {
		for _, f := range fds {
			_ = f.Close() // not wanted
		}
		return message{}, nil, err
	}
	return m, fds, nil
}

// received takes the descriptors out of control messages.
func received(oob []byte) (files []*os.File, err error) {
	controls, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errWire, err)
	}
	for _, c := range controls {
		fds, err := unix.ParseUnixRights(&c)
		if err != nil {
			continue // of another kind
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "seat"))
		}
	}
	return files, nil
}
