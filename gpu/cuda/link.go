package cuda

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/yield"
)

// link is one end of the socket. It blocks the thread that waits at it, and does not
// use the runtime's poller: threads of this package spin, and while one does, the
// runtime may leave the poller to its monitor, which looks every 10 ms.
type link struct {
	fd  int
	dec *gob.Decoder
	enc *gob.Encoder
	out bytes.Buffer
	fds []int // received and not yet taken
}

// linkSpin is how long a link looks for a message before it sleeps: requests come one
// after the other, and most take no longer than it does to be woken.
const linkSpin = 200 * time.Microsecond

// newLink takes the descriptor over.
func newLink(fd int) *link {
	l := &link{fd: fd}
	l.dec, l.enc = gob.NewDecoder(l), gob.NewEncoder(&l.out)
	return l
}

// Read keeps the descriptors that come beside the bytes.
func (l *link) Read(p []byte) (int, error) {
	const most = 253 // SCM_MAX_FD
	oob := make([]byte, unix.CmsgSpace(4*most))
	n, oobn, err := l.receive(p, oob)
	if err != nil {
		return 0, err
	}
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return n, fmt.Errorf("descriptors: %w", err)
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return n, fmt.Errorf("descriptors: %w", err)
			}
			l.fds = append(l.fds, fds...)
		}
	}
	if n == 0 {
		return 0, io.EOF // the other end is gone
	}
	return n, nil
}

// receive looks for a while, then sleeps.
func (l *link) receive(p, oob []byte) (n, oobn int, err error) {
	flags := unix.MSG_CMSG_CLOEXEC | unix.MSG_DONTWAIT
	for begin := time.Now(); ; {
		n, oobn, _, _, err = unix.Recvmsg(l.fd, p, oob, flags)
		switch {
		case err == nil:
			return n, oobn, nil
		case err == unix.ECONNRESET: // it went without reading what we sent
			return 0, 0, io.EOF
		case err == unix.EAGAIN && flags&unix.MSG_DONTWAIT == 0:
			return 0, 0, os.ErrDeadlineExceeded
		case err != unix.EAGAIN && err != unix.EINTR:
			return 0, 0, os.NewSyscallError("recvmsg", err)
		case time.Since(begin) > linkSpin:
			flags &^= unix.MSG_DONTWAIT
		default:
			yield.Processor()
		}
	}
}

// limit sets how long a receive may take before it fails with os.ErrDeadlineExceeded;
// 0 is no limit.
func (l *link) limit(d time.Duration) error {
	t := unix.NsecToTimeval(d.Nanoseconds())
	return os.NewSyscallError("setsockopt(SO_RCVTIMEO)", unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t))
}

// takeFDs takes the oldest n descriptors.
func (l *link) takeFDs(n int) ([]int, error) {
	if n > len(l.fds) {
		return nil, fmt.Errorf("%d descriptors came, not %d", len(l.fds), n)
	}
	fds := l.fds[:n:n]
	l.fds = l.fds[n:]
	return fds, nil
}

// send sends a message and descriptors.
func (l *link) send(m any, fds []int) error {
	l.out.Reset()
	if err := l.enc.Encode(m); err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for b := l.out.Bytes(); len(b) > 0; {
		n, err := unix.SendmsgN(l.fd, b, oob, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		b, oob = b[n:], nil // they went with the first bytes
	}
	return nil
}

// shutdown is the end of the stream for both ends.
func (l *link) shutdown() { _ = unix.Shutdown(l.fd, unix.SHUT_RDWR) } // fails only where the other end is gone

// close closes the descriptor. Nobody may wait at the link.
func (l *link) close() { _ = unix.Close(l.fd) } // ours; nothing is left to be written

// socketPair makes the descriptor of our end, and the other one.
func socketPair() (ours int, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "worker"), nil
}
