package control

import (
	"fmt"
	"io"
	"sync"
)

// Inbox is the receiving end of one stream: what has arrived and is not yet consumed, at most
// Window bytes. The connection's reader calls Put and Close, one consumer calls Read.
type Inbox struct {
	grant func(bytes uint32) // returns credit to the sender; called by the consumer, without mu

	mu      sync.Mutex
	ready   sync.Cond
	data    []byte
	pending uint32 // consumed and not yet granted
	err     error  // io.EOF or what ended the stream early
}

// NewInbox returns an empty Inbox that returns credit through grant.
func NewInbox(grant func(bytes uint32)) *Inbox {
	b := &Inbox{grant: grant}
	b.ready.L = &b.mu
	return b
}

// Put appends what arrived. It never waits. It returns an error that wraps ErrProtocol where the
// sender had no credit for it. Data after Close is dropped.
func (b *Inbox) Put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.data)+int(b.pending)+len(p) > Window {
		return fmt.Errorf("%w: more data than the window of %d bytes", ErrProtocol, Window)
	}
	if b.err == nil {
		b.data = append(b.data, p...)
		b.ready.Signal()
	}
	return nil
}

// Close ends the stream: Read returns what is left, then err (io.EOF for a regular end). Only the
// first call counts.
func (b *Inbox) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		b.ready.Broadcast()
	}
}

// Read waits for data or the end of the stream. It implements io.Reader.
func (b *Inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	for len(b.data) == 0 && b.err == nil {
		b.ready.Wait()
	}
	if len(b.data) == 0 {
		defer b.mu.Unlock()
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	if len(b.data) == 0 {
		b.data = nil
	}
	// A quarter of the window at a time keeps Window frames rare and the sender busy.
	grant := uint32(0)
	if b.pending += uint32(n); b.pending >= Window/4 {
		grant, b.pending = b.pending, 0
	}
	b.mu.Unlock()
	if grant > 0 {
		b.grant(grant)
	}
	return n, nil
}

// Credit is the number of bytes that the sender of one stream may still send.
type Credit struct {
	mu    sync.Mutex
	more  sync.Cond
	bytes int
	err   error
}

// NewCredit returns the credit that a stream begins with.
func NewCredit() *Credit {
	c := &Credit{bytes: Window}
	c.more.L = &c.mu
	return c
}

// Add gives credit back. It returns an error that wraps ErrProtocol where that makes more than a window.
func (c *Credit) Add(bytes uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(c.bytes)+int64(bytes) > Window {
		return fmt.Errorf("%w: credit beyond the window of %d bytes", ErrProtocol, Window)
	}
	c.bytes += int(bytes)
	c.more.Broadcast()
	return nil
}

// Close makes Take return err from now on.
func (c *Credit) Close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.more.Broadcast()
	}
}

// Take waits until some credit is there and takes up to most bytes of it.
func (c *Credit) Take(most int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes == 0 && c.err == nil {
		c.more.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	n := min(most, c.bytes)
	c.bytes -= n
	return n, nil
}

// Outbox is the sending end of one stream.
type Outbox struct {
	conn   *Conn
	call   uint32
	stream Stream
	*Credit
}

// NewOutbox returns the sending end of a stream of a call.
func NewOutbox(conn *Conn, call uint32, stream Stream) *Outbox {
	return &Outbox{conn, call, stream, NewCredit()}
}

// Write sends p in as many frames as it takes, waiting for credit. It implements io.Writer.
func (o *Outbox) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := o.Take(min(len(p)-sent, MaxData))
		if err != nil {
			return sent, err
		}
		if err := o.conn.Send(Frame{Type: TypeData, Stream: o.stream, Call: o.call, Payload: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// End marks the end of the stream for the other side.
func (o *Outbox) End() error {
	return o.conn.Send(Frame{Type: TypeClose, Stream: o.stream, Call: o.call})
}

var (
	_ io.Reader = (*Inbox)(nil)
	_ io.Writer = (*Outbox)(nil)
)
