package cuda

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// Everything but commands goes over a stream socket, one request and one reply at
// a time, in gob. Descriptors travel beside the first byte of their request. Both
// ends are the same program, so the messages have no version.

// request asks a worker for something. Op says what, and which fields count.
type request struct {
	Op    op
	ID    uint64 // of a memory or module
	VA    uint64
	Off   uint64
	Size  uint64
	Write bool
	Slot  int    // of a channel
	Runs  []run  // of opSystem
	Image []byte // of opLoad: PTX, or what was compiled from it
	Built bool   // Image is compiled
	Names []string
	Vars  []string
	FDs   int // that travel with it
}

type op uint8

const (
	opHello op = iota
	opAllocate
	opRelease
	opMap
	opUnmap
	opMapSystem
	opUnmapSystem
	opLoad
	opUnload
	opOpen
	opClose
)

// undoes reports whether a request is to take away what a new worker never had.
func (q *request) undoes() bool {
	switch q.Op {
	case opUnmap, opUnmapSystem, opUnload, opClose:
		return true
	}
	return false
}

// run is a piece of a file.
type run struct {
	File int // which of the descriptors
	Off  uint64
	Len  uint64
}

// reply answers a request.
type reply struct {
	Err       *driverError
	Props     gpu.Properties // of opHello
	Image     []byte         // of opLoad: what was compiled
	Functions []functionInfo // of opLoad, in the order of Names
	Vars      []varInfo      // of opLoad, in the order of Vars
}

// functionInfo is what the driver says of a kernel.
type functionInfo struct {
	Handle                                 uint64
	MaxThreads, Shared, Const, Local, Regs int
}

// varInfo is where a variable lies; Size is 0 where the driver left it out.
type varInfo struct{ Addr, Size uint64 }

// link is one end of the socket.
type link struct {
	conn *net.UnixConn
	dec  *gob.Decoder
	enc  *gob.Encoder
	out  bytes.Buffer
	fds  []int // received and not yet taken
}

func newLink(conn *net.UnixConn) *link {
	l := &link{conn: conn}
	l.dec, l.enc = gob.NewDecoder(l), gob.NewEncoder(&l.out)
	return l
}

// Read keeps the descriptors that come beside the bytes.
func (l *link) Read(p []byte) (int, error) {
	const most = 253 // SCM_MAX_FD
	oob := make([]byte, unix.CmsgSpace(4*most))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		messages, perr := unix.ParseSocketControlMessage(oob[:oobn])
		if perr != nil {
			return n, fmt.Errorf("descriptors: %w", perr)
		}
		for i := range messages {
			fds, perr := unix.ParseUnixRights(&messages[i])
			if perr != nil {
				return n, fmt.Errorf("descriptors: %w", perr)
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
			}
			l.fds = append(l.fds, fds...)
		}
	}
	if n == 0 && err == nil {
		err = io.EOF // the other end is gone
	}
	return max(n, 0), err // n is -1 with some errors
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
	b := l.out.Bytes()
	if len(fds) > 0 {
		// One byte carries them; the rest follows, however long.
		if _, _, err := l.conn.WriteMsgUnix(b[:1], unix.UnixRights(fds...), nil); err != nil {
			return err
		}
		b = b[1:]
	}
	_, err := l.conn.Write(b)
	return err
}

// socketPair makes the two ends.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "worker")
	ours, err = unixConn(os.NewFile(uintptr(fds[0]), "backend"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// unixConn takes over a descriptor.
func unixConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), c.Close())
	}
	return u, u.SetDeadline(time.Time{})
}
