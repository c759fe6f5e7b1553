package workers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// Socket is the descriptor of the socket in a keeper and in a worker. The other files of a worker
// follow it.
const Socket = 3

const (
	orderBytes  = 8
	noticeBytes = 16
	maxText     = 1024 // bytes of a reason
)

// kind says what a notice is about.
type kind uint32

const (
	noticeStarted kind = iota + 1 // the process runs
	noticeRefused                 // it could not be started
	noticeEnded                   // it has ended and is reaped
)

// notice is a message of a keeper.
type notice struct {
	id   uint64
	kind kind
	text string // the reason
	fds  []int
}

var errNotice = errors.New("malformed notice")

func (n *notice) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, n.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.kind))
	return append(b, n.text[:min(len(n.text), maxText)]...)
}

func decodeNotice(b []byte) (n notice, err error) {
	if len(b) < noticeBytes {
		return n, fmt.Errorf("%w of %d bytes", errNotice, len(b))
	}
	n.id, n.text = binary.LittleEndian.Uint64(b), string(b[noticeBytes:])
	k := binary.LittleEndian.Uint64(b[8:])
	if k < uint64(noticeStarted) || k > uint64(noticeEnded) {
		return n, fmt.Errorf("%w: kind %d", errNotice, k)
	}
	n.kind = kind(k)
	return n, nil
}

// sendNotice sends a notice.
func sendNotice(n *notice) error {
	var rights []byte
	if len(n.fds) > 0 {
		rights = unix.UnixRights(n.fds...)
	}
	for {
		err := unix.Sendmsg(Socket, n.append(nil), rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// receiveNotice waits for the next notice. The error is io.EOF when the keeper is gone.
func receiveNotice(fd, maxFDs int) (notice, error) {
	b, control := make([]byte, noticeBytes+maxText), make([]byte, unix.CmsgSpace(4*maxFDs))
	for {
		n, controls, flags, _, err := unix.Recvmsg(fd, b, control, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECONNRESET): // it went without reading all orders
			return notice{}, io.EOF
		case err != nil:
			return notice{}, os.NewSyscallError("recvmsg", err)
		case n == 0 && controls == 0:
			return notice{}, io.EOF
		}
		fds, err := unixsock.Descriptors(control[:controls])
		if err != nil {
			return notice{}, err
		}
		m, err := decodeNotice(b[:n])
		if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			err = fmt.Errorf("%w: too long", errNotice)
		}
		if err != nil {
			unixsock.Close(fds)
			return notice{}, err
		}
		m.fds = fds
		return m, nil
	}
}

// receiveOrder waits for the next order. The error is io.EOF when the backend is gone.
func receiveOrder() (id uint64, err error) {
	var b [orderBytes + 1]byte
	for {
		n, err := unix.Read(Socket, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n != orderBytes:
			return 0, fmt.Errorf("an order of %d bytes", n)
		}
		return binary.LittleEndian.Uint64(b[:]), nil
	}
}
