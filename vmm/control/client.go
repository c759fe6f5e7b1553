package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

const (
	// sendTimeout ends a connection whose guest does not read. It is generous: an emulated guest on
	// a busy host may be slow, but a guest that is alive reads at once.
	sendTimeout = 60 * time.Second
	// killGrace is how long a cancelled call may take to report its end.
	killGrace = 5 * time.Second
	// sigKILL is SIGKILL's number in the guest, which runs Linux whatever the host is.
	sigKILL = 9
)

// ErrClosed is what calls return after Close.
var ErrClosed = errors.New("control connection closed")

// Client is the host's end of a connection. All methods are safe for concurrent use.
type Client struct {
	nc   net.Conn
	conn *Conn
	done chan struct{} // closed when the reading goroutine has ended
	up   chan struct{} // closed once the guest has said hello

	mu    sync.Mutex
	hello *Hello
	calls map[uint32]*call
	last  uint32 // number of the last call
	err   error  // why the connection ended
}

// call is one call on the host's side.
type call struct {
	id    uint32
	stdin *Outbox
	out   [streamEnd]*Inbox // Stdout and Stderr
	exit  chan Exit         // receives one value, or is closed where the connection ends
}

// hostConn gives every write a time limit of its own and ends the connection where one fails: a guest
// that reads nothing must not block its callers without end.
type hostConn struct{ c *Client }

func (h hostConn) Read(p []byte) (int, error) { return h.c.nc.Read(p) }

func (h hostConn) Write(p []byte) (int, error) {
	err := h.c.nc.SetWriteDeadline(time.Now().Add(sendTimeout))
	n := 0
	if err == nil {
		n, err = h.c.nc.Write(p)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the guest has read nothing for %v: %w", sendTimeout, err)
	}
	if err != nil {
		h.c.fail(gone(err))
	}
	return n, err
}

// NewClient takes over nc, the host's end of the control port.
func NewClient(nc net.Conn) *Client {
	c := &Client{nc: nc, done: make(chan struct{}), up: make(chan struct{}), calls: map[uint32]*call{}}
	c.conn = NewConn(hostConn{c}, Host)
	go c.receive()
	return c
}

// Close ends the connection and every call on it.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}

// Done is closed when the connection has ended; Err then says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Up is closed once the guest has said that it is ready.
func (c *Client) Up() <-chan struct{} { return c.up }

// Hello returns the guest's Hello; the zero value before Up is closed.
func (c *Client) Hello() Hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello == nil {
		return Hello{}
	}
	return *c.hello
}

// fail ends the connection: the first reason is kept, and all that waits is woken.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.nc.Close()
	for _, k := range c.calls {
		k.end(err)
		close(k.exit)
	}
	c.calls = nil
}

// end stops the streams of a call.
func (k *call) end(err error) {
	k.stdin.Close(err)
	k.out[Stdout].Close(err)
	k.out[Stderr].Close(err)
}

func (c *Client) receive() {
	defer close(c.done)
	for {
		f, err := c.conn.Receive()
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			c.fail(gone(err))
			return
		}
	}
}

// gone is what an error of the connection means where the guest has ended it: who reads and
// who writes may be the first to see that.
func gone(err error) error {
	for _, e := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, e) {
			return errors.New("the guest is gone")
		}
	}
	return err
}

// handle takes one frame from the guest. Frames of a call that is over are late, not wrong.
func (c *Client) handle(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Type == TypeHello {
		return c.greet(f)
	}
	if c.hello == nil {
		return fmt.Errorf("%w: %v before hello", ErrProtocol, f.Type)
	}
	k := c.calls[f.Call]
	if k == nil {
		return nil
	}
	switch f.Type {
	case TypeData, TypeClose:
		in := k.out[f.Stream]
		if in == nil {
			return fmt.Errorf("%w: %v for a stream that the guest does not send", ErrProtocol, f.Type)
		}
		if f.Type == TypeClose {
			in.Close(io.EOF)
			return nil
		}
		return in.Put(f.Payload)
	case TypeWindow:
		if f.Stream != Stdin {
			return fmt.Errorf("%w: credit for a stream that the host does not send", ErrProtocol)
		}
		return k.stdin.Add(f.Value())
	case TypeExit:
		exit, err := DecodeExit(f.Payload)
		if err != nil {
			return err
		}
		exit.Message = printable(exit.Message)
		for i, text := range exit.Missing {
			exit.Missing[i] = printable(text)
		}
		delete(c.calls, f.Call)
		k.end(io.EOF)
		k.exit <- exit
	}
	return nil
}

func (c *Client) greet(f Frame) error {
	h, err := DecodeHello(f.Payload)
	switch {
	case err != nil:
		return err
	case c.hello != nil:
		return fmt.Errorf("%w: a second hello", ErrProtocol)
	case h.Version != Version:
		return fmt.Errorf("the guest's init speaks version %d of the control protocol, this program version %d: build the image again", h.Version, Version)
	}
	h.Kernel, h.RenderNode, h.Note = printable(h.Kernel), printable(h.RenderNode), printable(h.Note)
	c.hello = &h
	close(c.up)
	return nil
}

// printable removes from a text for messages the characters that could control a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return -1
	}, s)
}

// open registers a new call and sends its first frame.
func (c *Client) open(t Type, payload []byte) (*call, error) {
	c.mu.Lock()
	if c.err == nil && len(c.calls) >= MaxCalls {
		c.mu.Unlock()
		return nil, fmt.Errorf("%d programs already run in the guest: wait for one to end", MaxCalls)
	}
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.last++
	k := &call{id: c.last, exit: make(chan Exit, 1)}
	k.stdin = NewOutbox(c.conn, k.id, Stdin)
	for _, s := range []Stream{Stdout, Stderr} {
		k.out[s] = NewInbox(func(n uint32) {
			// A failure ends the connection and shows there.
			_ = c.conn.Send(Frame{Type: TypeWindow, Stream: s, Call: k.id, Payload: U32(n)})
		})
	}
	c.calls[k.id] = k
	c.mu.Unlock()
	if err := c.conn.Send(Frame{Type: t, Call: k.id, Payload: payload}); err != nil {
		return nil, err
	}
	return k, nil
}

// Streams are the host's ends of a program's streams. Nil means empty input or dropped output.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Resize delivers new sizes of the terminal, packed by Size. May be nil; must not be closed.
	Resize <-chan uint32
}

// Run runs a program in the guest and waits for its end and for all of its output. A non-zero exit
// code is not an error. When ctx ends, or an output cannot be written, the program is killed and Run
// returns that error. A Read of Stdin that is under way when Run returns is left behind.
func (c *Client) Run(ctx context.Context, s Start, st Streams) (Exit, error) {
	payload, err := s.Encode()
	if err != nil {
		return Exit{}, err
	}
	return c.do(ctx, TypeStart, payload, st)
}

// Put writes a file in the guest with the content of r.
func (c *Client) Put(ctx context.Context, p Put, r io.Reader) error {
	exit, err := c.do(ctx, TypePut, p.Encode(), Streams{Stdin: r})
	switch {
	case err != nil:
	case exit.Message != "":
		err = errors.New(exit.Message)
	case exit.Code != 0:
		err = fmt.Errorf("the guest's init ended it with code %d", exit.Code)
	}
	if err != nil {
		return fmt.Errorf("write %s in the guest: %w", p.Path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, t Type, payload []byte, st Streams) (Exit, error) {
	select {
	case <-c.up:
	default:
		return Exit{}, errors.New("the guest is not ready yet")
	}
	if err := ctx.Err(); err != nil {
		return Exit{}, err
	}
	k, err := c.open(t, payload)
	if err != nil {
		return Exit{}, err
	}
	failed := make(chan error, 3) // a copy that went wrong on the host's side
	go k.feed(st.Stdin, failed)
	var copies sync.WaitGroup
	for s, w := range map[Stream]io.Writer{Stdout: st.Stdout, Stderr: st.Stderr} {
		copies.Go(func() { k.drain(s, w, failed) })
	}
	copied := make(chan struct{})
	go func() { copies.Wait(); close(copied) }()

	exit, err := c.wait(ctx, k, st.Resize, failed)
	if err != nil {
		return c.kill(k, err, copied)
	}
	select {
	case <-copied:
	case <-ctx.Done(): // the program is over, but its audience hangs
		return exit, context.Cause(ctx)
	}
	select {
	case err = <-failed:
	default:
	}
	return exit, err
}

// wait returns how a call ended, or why it has to be ended.
func (c *Client) wait(ctx context.Context, k *call, resize <-chan uint32, failed <-chan error) (Exit, error) {
	for {
		select {
		case exit, ok := <-k.exit:
			if !ok {
				return Exit{}, c.Err()
			}
			return exit, nil
		case size := <-resize:
			_ = c.conn.Send(Frame{Type: TypeResize, Call: k.id, Payload: U32(size)})
		case err := <-failed:
			return Exit{}, err
		case <-ctx.Done():
			return Exit{}, context.Cause(ctx)
		}
	}
}

// kill ends a call whose result is no longer wanted, and returns once no goroutine of it writes to the
// caller's streams, or after killGrace where the guest or such a stream hangs.
func (c *Client) kill(k *call, cause error, copied <-chan struct{}) (Exit, error) {
	go func() { _ = c.conn.Send(Frame{Type: TypeSignal, Call: k.id, Payload: U32(sigKILL)}) }()
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	var exit Exit
	select {
	case exit = <-k.exit:
	case <-grace.C:
		c.mu.Lock()
		delete(c.calls, k.id)
		c.mu.Unlock()
		k.end(cause)
		return Exit{}, cause
	}
	select {
	case <-copied:
	case <-grace.C:
	}
	return exit, cause
}

// feed sends r to the program until it ends or the call does.
func (k *call) feed(r io.Reader, failed chan<- error) {
	if r != nil {
		buf := make([]byte, MaxData)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				if _, err := k.stdin.Write(buf[:n]); err != nil {
					return // the call is over; its end says why
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				failed <- fmt.Errorf("read input: %w", err)
				return
			}
		}
	}
	_ = k.stdin.End()
}

// drain writes the program's output to w.
func (k *call) drain(s Stream, w io.Writer, failed chan<- error) {
	if w == nil {
		w = io.Discard
	}
	buf := make([]byte, MaxData)
	for {
		n, err := k.out[s].Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				failed <- fmt.Errorf("write output: %w", err)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Shutdown asks the guest to power off. It does not wait for that.
func (c *Client) Shutdown() error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.conn.Send(Frame{Type: TypeShutdown})
}
