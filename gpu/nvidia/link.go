package nvidia

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
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

	mostFDs int // that may have been received and not yet taken
	left    int // bytes that the message may still have
	turns   int // requests that were answered
}

// linkSpin is how long a link looks for a message before it sleeps: requests come one
// after the other, and most take no longer than it does to be woken.
const linkSpin = 200 * time.Microsecond

// newLink takes the descriptor over. The other end may be hostile: it sends at most
// mostFDs descriptors ahead of those that were taken.
func newLink(fd, mostFDs int) *link {
	l := &link{fd: fd, mostFDs: mostFDs}
	l.renew()
	return l
}

// renew lets go of what encoder and decoder keep. Preconditions: the other end does so too, and
// no message is under way.
func (l *link) renew() {
	l.out = bytes.Buffer{}
	l.dec, l.enc = gob.NewDecoder(l), gob.NewEncoder(&l.out)
}

// answered is called at both ends when a request was answered. An encoder keeps the memory of
// its largest message, and a decoder what it was told of types, which a hostile worker may do
// again and again. There is one of each for each context.
func (l *link) answered(q *request) {
	const renewal = 256 // requests
	if l.turns++; l.turns%renewal == 0 || q.large() {
		l.renew()
	}
}

// maxMessage bounds most messages, in bytes.
const maxMessage = 8 << 10

// errTooMuch is the error of a message that is larger than it may be.
var errTooMuch = errors.New("the other end sends more than it may")

// decode receives a message of at most most bytes, with those that belong to the next one
// and came along.
func (l *link) decode(m any, most int) error {
	l.left = most
	return l.dec.Decode(m)
}

// partBytes is how much of an image goes in one message.
const partBytes = 64 << 10

// sendImage sends all of an image but the last part, which it returns.
func (l *link) sendImage(image []byte) ([]byte, error) {
	size := uint64(len(image))
	for len(image) > partBytes {
		if err := l.send(&part{Image: image[:partBytes], More: true, Size: size}, nil); err != nil {
			return nil, err
		}
		image = image[partBytes:]
	}
	return image, nil
}

// part is a message, request or reply, of which an image is to go on in the next one.
type part struct {
	Image []byte
	More  bool
	Size  uint64 // of the whole image
}

// Read keeps the descriptors that come with the bytes.
func (l *link) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooMuch
	}
	p = p[:min(len(p), l.left)]
	oob := make([]byte, unix.CmsgSpace(4*unixsock.MaxDescriptors))
	n, oobn, err := l.receive(p, oob)
	if err != nil {
		return 0, err
	}
	if oobn > 0 {
		fds, err := unixsock.Descriptors(oob[:oobn])
		if err != nil {
			return n, err
		}
		l.fds = append(l.fds, fds...)
		if len(l.fds) > l.mostFDs {
			l.dropFDs()
			return 0, errTooMuch
		}
	}
	l.left -= n
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

// dropFDs closes the descriptors that were not taken.
func (l *link) dropFDs() {
	unixsock.Close(l.fds)
	l.fds = nil
}

// takeFDs takes the oldest n descriptors.
func (l *link) takeFDs(n int) ([]int, error) {
	if n < 0 || n > len(l.fds) {
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

// close closes the descriptor. No call may wait at the link.
func (l *link) close() {
	l.dropFDs()
	_ = unix.Close(l.fd) // ours; nothing is left to be written
}
