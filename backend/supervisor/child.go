package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sandbox"
	"pvdrm/internal/unixsock"
)

// Descriptors of a child.
const (
	guestFD = 3 + iota
	linkFD
	statisticsFD
	childFDs // the first of further guests, and then of those that are free
)

// Child is the side of a backend that serves: it lives in the process that a parent started.
type Child struct {
	birth   birth
	guests  []*net.UnixListener
	peers   []*os.File
	link    *link
	stats   *net.UnixConn
	answers chan reply    // to requests for seats
	gone    chan struct{} // closed when the parent has hung up
	turn    chan struct{} // held while a seat is asked for
}

// reply is a message of the parent with its files.
type reply struct {
	message message
	files   []*os.File
}

// Adopt makes this process a child, if a parent started it with the given flag and command line. It
// gives up what it will not need and starts its program again for that, so what comes before it happens
// twice. It must be called on the main thread, before anything is opened.
func Adopt(flag string, args []string) (*Child, error) {
	for fd := guestFD; fd < childFDs; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, errors.New("this command is pvdrm's own; see pvdrm backend")
		}
	}
	b, err := parseBirth(flag)
	if err != nil {
		return nil, err
	}
	if b.Confine && !b.Shed {
		return nil, b.shed(args)
	}
	for fd := guestFD; fd < childFDs; fd++ {
		unix.CloseOnExec(fd) // of the programs that this one starts
	}
	c := &Child{birth: b, answers: make(chan reply), gone: make(chan struct{}), turn: make(chan struct{}, 1)}
	for i := range 1 + max(b.More, 0) {
		fd := guestFD
		if i > 0 {
			fd = childFDs + i - 1
			unix.CloseOnExec(fd)
		}
		guest := os.NewFile(uintptr(fd), "guest")
		l, err := net.FileListener(guest)
		if err = errors.Join(err, guest.Close()); err != nil {
			return nil, fmt.Errorf("the guest's socket: %w", err)
		}
		c.guests = append(c.guests, l.(*net.UnixListener)) // the parent made it
	}
	for i := range max(b.Peers, 0) {
		fd := childFDs + max(b.More, 0) + i
		unix.CloseOnExec(fd)
		c.peers = append(c.peers, os.NewFile(uintptr(fd), "peer"))
	}
	again, err := unix.FcntlInt(linkFD, unix.F_DUPFD_CLOEXEC, 0) // Fail has the first
	if err != nil {
		return nil, fmt.Errorf("the link: %w", os.NewSyscallError("fcntl", err))
	}
	conn, err := unixsock.Conn(again)
	if err != nil {
		return nil, fmt.Errorf("the link: %w", err)
	}
	c.link = &link{conn: conn}
	if c.stats, err = unixsock.Conn(statisticsFD); err != nil {
		return nil, fmt.Errorf("the socket for statistics: %w", err)
	}
	go c.read()
	return c, nil
}

// read reads answers until the parent hangs up.
func (c *Child) read() {
	defer close(c.gone)
	for {
		m, files, err := c.link.receive()
		if err != nil {
			return // the parent keeps to the protocol: this is its end
		}
		c.answers <- reply{message: m, files: files}
	}
}

// Context returns a context that ends with ctx, or when the parent is gone or wants this process to
// end.
func (c *Child) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Guest returns the socket at which guests connect.
func (c *Child) Guest() *net.UnixListener { return c.guests[0] }

// Guests returns Guest, and the sockets of further guests.
func (c *Child) Guests() []*net.UnixListener { return c.guests }

// Peers returns the sockets to what serves the guest's other devices, which belong to the caller.
func (c *Child) Peers() []*os.File { return c.peers }

// errParentGone reports that a child asked for a seat after its parent had hung up.
var errParentGone = errors.New("asking for a seat at the arbiter: pvdrm has ended")

// Seat asks the parent for a seat at the arbiter: it is for arbiter.GateConfig.
func (c *Child) Seat() (*arbiter.Seat, error) { return c.SeatOf(0) }

// SeatOf asks for the seat of a part of what the child serves.
func (c *Child) SeatOf(number int) (*arbiter.Seat, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	select {
	case <-c.gone: // the parent reads no more: a request would wait in vain once the link is full
		return nil, errParentGone
	default:
	}
	if err := c.link.send(message{op: opSeat, code: uint32(number)}); err != nil {
		return nil, err
	}
	select {
	case a := <-c.answers:
		return seatOf(a)
	case <-c.gone:
		return nil, errParentGone
	}
}

// Serve confines this process irrevocably, reports to the parent that it serves, and answers its questions
// for statistics from then on. All that the child needs must be open.
func (c *Child) Serve(statistics func() ([]byte, error)) error {
	if c.birth.Confine {
		if err := limitMemory(c.birth.Bounds.Memory); err != nil {
			return err
		}
		if err := sandbox.Enter(); err != nil {
			return err
		}
	}
	go tell(c.stats, statistics)
	return c.link.send(message{op: opReady, text: c.birth.Lacking})
}

// Fail reports to the parent why this process ends, and its exit code. It can be called at any
// time in the process that a parent started.
func Fail(reason error, code int) error {
	m := message{op: opFailed, code: uint32(code), text: reason.Error()}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(linkFD, m.append(nil), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
}
