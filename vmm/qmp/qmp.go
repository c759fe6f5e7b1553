// Package qmp is a client of QEMU's machine protocol (QEMU, docs/interop/qmp-spec.rst): commands with
// their answers, the events between them, and file descriptors passed to QEMU.
//
// A Client owns one goroutine that reads the connection until it ends. Commands may be given from any
// goroutine at once; each waits for the answer with its own id. No callback runs under the lock.
package qmp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLine bounds one message from QEMU in bytes. The longest answers that are asked for take a
	// few kilobytes.
	maxLine = 4 << 20
	// eventBacklog is how many events are kept for a slow reader; more are dropped, oldest first.
	eventBacklog = 64
	// writeTimeout bounds the sending of one command.
	writeTimeout = 10 * time.Second
)

// ErrClosed is what commands return after Close.
var ErrClosed = errors.New("QMP connection closed")

// Error is QEMU's refusal of a command.
type Error struct {
	Command     string
	Class       string `json:"class"`
	Description string `json:"desc"`
}

func (e *Error) Error() string { return fmt.Sprintf("QEMU refused %s: %s", e.Command, e.Description) }

// Event is something that happened in QEMU.
type Event struct {
	Name string          // such as SHUTDOWN
	Data json.RawMessage // depends on the name, may be empty
}

// Client is one connection.
type Client struct {
	conn   *net.UnixConn
	events chan Event
	done   chan struct{}

	write sync.Mutex // keeps commands whole; taken before mu

	mu      sync.Mutex
	last    uint64
	waiting map[string]chan<- message // by command id
	err     error                     // why the connection ended
}

// message is anything that QEMU sends.
type message struct {
	Greeting *struct {
		Version struct {
			QEMU struct{ Major, Minor, Micro int }
		}
	} `json:"QMP"`
	ID     string          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
}

// New takes over conn, waits for QEMU's greeting and leaves negotiation mode. It closes conn where
// that fails.
func New(ctx context.Context, conn *net.UnixConn) (*Client, error) {
	c := &Client{conn: conn, events: make(chan Event, eventBacklog), done: make(chan struct{}), waiting: map[string]chan<- message{}}
	greeted := make(chan message, 1)
	go c.receive(greeted)
	select {
	case <-greeted:
	case <-c.done:
		return nil, fmt.Errorf("wait for QEMU's greeting: %w", c.Err())
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("wait for QEMU's greeting: %w", context.Cause(ctx))
	}
	if err := c.Execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection. QEMU runs on.
func (c *Client) Close() {
	c.fail(ErrClosed)
	<-c.done
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Events delivers events in order. It is closed when the connection ends.
func (c *Client) Events() <-chan Event { return c.events }

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.conn.Close()
	for _, w := range c.waiting {
		close(w)
	}
	c.waiting = nil
}

func (c *Client) receive(greeted chan<- message) {
	defer close(c.done)
	defer close(c.events)
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			c.fail(fmt.Errorf("read from QEMU: %w", err))
			return
		}
		switch {
		case m.Greeting != nil:
			select {
			case greeted <- m:
			default: // only the first one means anything
			}
		case m.Event != "":
			c.publish(Event{m.Event, m.Data})
		default:
			c.answer(m)
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	c.fail(fmt.Errorf("read from QEMU: %w", err))
}

// publish never waits: the reader must get to the answers.
func (c *Client) publish(e Event) {
	for {
		select {
		case c.events <- e:
			return
		default:
		}
		select {
		case <-c.events: // the oldest makes room
		default:
		}
	}
}

// answer passes an answer to its command, if that still waits.
func (c *Client) answer(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[m.ID]; w != nil {
		delete(c.waiting, m.ID)
		w <- m
	}
}

// Execute runs a command and decodes its result into result unless that is nil. It returns an *Error
// where QEMU refused it. A command whose ctx ends may still take effect.
func (c *Client) Execute(ctx context.Context, command string, args, result any) error {
	return c.execute(ctx, command, args, result, nil)
}

// SendFile gives QEMU a copy of a file descriptor as a set of its own, and returns the name under
// which other commands can open it. RemoveFile takes it back.
func (c *Client) SendFile(ctx context.Context, fd int) (set int, path string, err error) {
	var result struct {
		Set int `json:"fdset-id"`
	}
	if err := c.execute(ctx, "add-fd", nil, &result, unix.UnixRights(fd)); err != nil {
		return 0, "", err
	}
	return result.Set, "/dev/fdset/" + strconv.Itoa(result.Set), nil
}

// RemoveFile undoes SendFile.
func (c *Client) RemoveFile(ctx context.Context, set int) error {
	return c.Execute(ctx, "remove-fd", map[string]int{"fdset-id": set}, nil)
}

func (c *Client) execute(ctx context.Context, command string, args, result any, rights []byte) error {
	wait := make(chan message, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("%s: %w", command, c.err)
	}
	c.last++
	id := strconv.FormatUint(c.last, 10)
	c.waiting[id] = wait
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()

	request := map[string]any{"execute": command, "id": id}
	if args != nil {
		request["arguments"] = args
	}
	if err := c.send(request, rights); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	select {
	case m, ok := <-wait:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", command, c.Err())
		case m.Error != nil:
			m.Error.Command = command
			return m.Error
		case result != nil:
			if err := json.Unmarshal(m.Return, result); err != nil {
				return fmt.Errorf("%s: QEMU's answer: %w", command, err)
			}
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", command, context.Cause(ctx))
	}
}

func (c *Client) send(request any, rights []byte) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	n := 0
	if len(rights) > 0 {
		// With the first bytes of the command, which QEMU reads them with.
		if n, _, err = c.conn.WriteMsgUnix(line, rights, nil); err != nil {
			return c.broken(err)
		}
	}
	if _, err := c.conn.Write(line[n:]); err != nil {
		return c.broken(err)
	}
	return nil
}

// broken ends the connection: a command written in part cannot be taken back.
func (c *Client) broken(err error) error {
	err = fmt.Errorf("write to QEMU: %w", err)
	c.fail(err)
	return err
}
