package arbiter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Seat is a guest's place at an arbiter, taken by a process that the arbiter trusts: a connection
// on which the arbiter has welcomed the guest, and the guest's page. The holder of the two
// descriptors takes part as that guest, and can change neither its name nor its share.
type Seat struct {
	Conn *os.File // the connection, a socket of type SOCK_SEQPACKET
	Page *os.File // the page, a sealed memfd
}

// Close leaves the seat, unless a Gate or another process has it, too.
func (s *Seat) Close() error { return errors.Join(s.Conn.Close(), s.Page.Close()) }

// Taking names a seat to take, and the users whose arbiter to trust.
type Taking struct {
	Socket string // where the arbiter listens
	Hello  Hello
	// Owners are the users whose arbiter is accepted; nil stands for the caller's own user. The
	// arbiter decides when a guest may run, so a foreign arbiter could stop it.
	Owners []uint32
}

// takeLimit bounds the time in which an arbiter has to answer a hello.
const takeLimit = 5 * time.Second

// Take connects to an arbiter, sends a hello and returns the seat that the arbiter gives. The
// error is a *RefusedError if another try is of no use: the arbiter refuses the guest, answers
// wrongly, or runs as a user that t does not name.
func Take(ctx context.Context, t Taking) (*Seat, error) {
	if err := checkName(t.Hello.Name); err != nil {
		return nil, &RefusedError{unix.EINVAL, err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, takeLimit)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unixpacket", t.Socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the arbiter: %w", err)
	}
	defer func() { _ = c.Close() }() // a seat has a copy
	conn := c.(*net.UnixConn)
	page, err := greet(ctx, conn, t)
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		// There is an arbiter, whatever is wrong with it.
		err = &RefusedError{unix.ECONNRESET, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	file, err := conn.File()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keeping the arbiter's connection: %w", err), page.Close())
	}
	return &Seat{Conn: file, Page: page}, nil
}

// Connect takes the seat. It is a GateConfig.Connect for processes that may connect.
func (t Taking) Connect() (*Seat, error) { return Take(context.Background(), t) }

// greet sends a hello to a trusted arbiter, and returns the page that it sends.
func greet(ctx context.Context, conn *net.UnixConn, t Taking) (*os.File, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("arbiter socket: %w", err)
	}
	arbiter, err := peerOf(raw)
	if err != nil {
		return nil, err
	}
	owners := t.Owners
	if owners == nil {
		owners = []uint32{uint32(os.Geteuid())}
	}
	if !slices.Contains(owners, arbiter.UID) { // before it learns the key
		return nil, &RefusedError{unix.EPERM, fmt.Sprintf("the arbiter at %s belongs to user %d, and is trusted only if it is of %v",
			t.Socket, arbiter.UID, owners)}
	}
	// The end of the context interrupts waits.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := conn.Write(t.Hello.encode()); err != nil {
		return nil, fmt.Errorf("greeting the arbiter: %w", err)
	}
	m, fd, err := receiveWith(conn)
	if err != nil {
		return nil, fmt.Errorf("the arbiter's answer: %w", err)
	}
	switch {
	case m.op == opRefuse && fd < 0:
		return nil, &RefusedError{unix.Errno(m.value), m.text}
	case m.op != opWelcome || fd < 0:
		if fd >= 0 {
			_ = unix.Close(fd) // not wanted
		}
		return nil, fmt.Errorf("the arbiter answers with %v: %w", m.op, ErrWire)
	}
	return os.NewFile(uintptr(fd), "pvdrm-arbiter"), nil
}

// receiveWith receives the arbiter's answer to a hello, with a descriptor; fd is -1 if there was none.
func receiveWith(conn *net.UnixConn) (m message, fd int, err error) {
	var in [messageBytes + maxText + 1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(in[:], oob)
	if err == nil && n == 0 {
		err = errors.New("it has closed the connection")
	}
	if err != nil {
		return m, -1, err
	}
	fds, err := receivedFDs(oob[:oobn])
	if err != nil {
		return m, -1, err
	}
	m, err = decodeMessage(in[:n], true)
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

// open maps the page and makes the link with a copy of the connection, and closes the seat. It
// refuses a page that can shrink, since an access beyond its end would be fatal. Of sockets it makes
// only system calls that send and receive, since a confined backend may make no others.
func (s *Seat) open() (link, *page, error) {
	defer func() { _ = s.Close() }() // the link and the page keep a copy and a mapping
	var p *page
	err := withFD(s.Page, func(fd int) (err error) {
		p, err = mapPage(fd)
		return err
	})
	if err != nil {
		return nil, nil, &RefusedError{unix.ECONNRESET, err.Error()}
	}
	var conn *os.File
	err = withFD(s.Conn, func(fd int) error {
		// Go's poller takes the copy, so that closing it ends its readers.
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the arbiter's connection: %w", os.NewSyscallError("fcntl", err))
		}
		if err := unix.SetNonblock(dup, true); err != nil {
			_ = unix.Close(dup) // err is the error to report
			return fmt.Errorf("the arbiter's connection: %w", os.NewSyscallError("fcntl", err))
		}
		conn = os.NewFile(uintptr(dup), "arbiter")
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := newSocket(conn, true)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return l, p, nil
}

// withFD calls f with the descriptor of a file.
func withFD(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = f(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// peerOf returns the process at the other end of a connection.
func peerOf(raw syscall.RawConn) (Peer, error) {
	var cred *unix.Ucred
	var err error
	if failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil {
		return Peer{}, fmt.Errorf("who is connected: %w", failed)
	}
	if err != nil {
		return Peer{}, fmt.Errorf("who is connected: %w", os.NewSyscallError("getsockopt", err))
	}
	return Peer{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}, nil
}

// RefusedError reports that an arbiter refuses this guest.
type RefusedError struct {
	Errno unix.Errno
	Text  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the arbiter: %s (%s)", e.Text, unix.ErrnoName(e.Errno))
}

// Unwrap makes errors.Is work with the number.
func (e *RefusedError) Unwrap() error { return e.Errno }
