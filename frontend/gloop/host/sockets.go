package host

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/gloop/abi"
)

// pieceBytes is how much of device memory is sent at once. It is copied, so that no bounce buffer
// waits for a peer.
const pieceBytes = 64 << 10

// connection is a TCP connection. One call at a time receives from it, and one sends.
type connection struct {
	*net.TCPConn
	receiving, sending turn
}

func newConnection(c *net.TCPConn) *connection {
	return &connection{TCPConn: c, receiving: newTurn(), sending: newTurn()}
}

func (c *call) connect() (int64, error) {
	if err := c.handles.reserve(); err != nil {
		return 0, err
	}
	ctx, stop := c.within()
	defer stop()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", c.Endpoint().String())
	if err != nil {
		return c.handles.add(nil, err)
	}
	return c.handles.add(newConnection(conn.(*net.TCPConn)), nil)
}

func (c *call) bind() (int64, error) {
	if err := c.handles.reserve(); err != nil {
		return 0, err
	}
	var config net.ListenConfig
	l, err := config.Listen(c.living, "tcp4", c.Endpoint().String())
	if err != nil {
		return c.handles.add(nil, err)
	}
	if c.cfg.Bound != nil {
		c.cfg.Bound(l.Addr().String())
	}
	return c.handles.add(&listener{TCPListener: l.(*net.TCPListener), accepting: newTurn()}, nil)
}

func (c *call) unbind() (int64, error)     { return remove[*listener](&c.handles, c.Handle) }
func (c *call) disconnect() (int64, error) { return remove[*connection](&c.handles, c.Handle) }

func (c *call) accept() (int64, error) {
	l, err := handle[*listener](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	if err := c.handles.reserve(); err != nil {
		return 0, err
	}
	ctx, stop := c.within()
	defer stop()
	conn, err := l.next(ctx)
	if err != nil {
		return c.handles.add(nil, err)
	}
	return c.handles.add(newConnection(conn), nil)
}

// receive waits until there are bytes, and only then takes a bounce buffer.
func (c *call) receive() (int64, error) {
	conn, err := handle[*connection](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	ctx, stop := c.within()
	defer stop()
	done, err := conn.receiving.take(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if err := conn.SetReadDeadline(deadline(ctx)); err != nil {
		return 0, err
	}
	buf := c.direct(c.Address, c.Size)
	for got := uint64(0); got < c.Size; {
		n, err := c.some(conn, buf, got)
		got += uint64(n)
		if err != nil || c.Flags&abi.FlagAll == 0 || got == c.Size {
			return c.moved(int(got), err, buf != nil)
		}
	}
	return 0, nil
}

// some receives bytes after those that are done.
func (c *call) some(conn *connection, buf []byte, done uint64) (int, error) {
	if buf != nil {
		return conn.Read(buf[done:])
	}
	if err := readable(conn.TCPConn); err != nil {
		return 0, err
	}
	b, err := c.bounces.take(c.cfg.Context)
	if err != nil {
		return 0, err
	}
	defer c.bounces.give(b)
	n, err := conn.Read(b.bytes[:min(c.Size-done, bounceBytes)])
	if n == 0 {
		return 0, err
	}
	if err := b.toDevice(c.Address+done, uint64(n)); err != nil {
		return 0, err
	}
	return n, err
}

// readable waits until there are bytes, or the stream has ended.
func readable(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var one [1]byte
	return raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN)
	})
}

func (c *call) send() (int64, error) {
	conn, err := handle[*connection](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	ctx, stop := c.within()
	defer stop()
	over, err := conn.sending.take(ctx)
	if err != nil {
		return 0, err
	}
	defer over()
	if err := conn.SetWriteDeadline(deadline(ctx)); err != nil {
		return 0, err
	}
	if buf := c.direct(c.Address, c.Size); buf != nil {
		n, err := conn.Write(buf)
		return c.moved(n, err, true)
	}
	piece, done := make([]byte, min(c.Size, pieceBytes)), 0
	for uint64(done) < c.Size {
		part := piece[:min(c.Size-uint64(done), pieceBytes)]
		if err := c.fetch(part, c.Address+uint64(done)); err != nil {
			return c.moved(done, err, false)
		}
		n, err := conn.Write(part)
		done += n
		if err != nil {
			return c.moved(done, err, false)
		}
	}
	return c.moved(done, nil, false)
}

// fetch copies device memory.
func (c *call) fetch(to []byte, from uint64) error {
	b, err := c.bounces.take(c.cfg.Context)
	if err != nil {
		return err
	}
	defer c.bounces.give(b)
	if err := b.fromDevice(from, uint64(len(to))); err != nil {
		return err
	}
	copy(to, b.bytes)
	return nil
}

// turn lets one call at a time use a socket, whose deadline is then that call's.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, not longer than ctx. The caller calls done.
func (t turn) take(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// deadline is that of a context; the zero time stands for none.
func deadline(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// listener is a server.
type listener struct {
	*net.TCPListener
	accepting turn
}

// next waits for a connection.
func (l *listener) next(ctx context.Context) (*net.TCPConn, error) {
	done, err := l.accepting.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := l.SetDeadline(deadline(ctx)); err != nil {
		return nil, err
	}
	return l.AcceptTCP()
}
