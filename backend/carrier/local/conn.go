package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/session"
	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gem"
	"pvdrm/hypercall"
	"pvdrm/internal/sample"
	"pvdrm/internal/unixsock"
)

// conn is one client.
type conn struct {
	server *Server
	sock   *net.UnixConn
	label  string // what it calls itself: for logs
	log    *zap.Logger
	kick   *os.File // reading end of the pipe in which the client rings
	notify int      // writing end of the pipe in which the backend rings; -1 before the hello

	mu     sync.Mutex
	memory *gem.Table[*memory]

	session session.Attached // nil until the client attached a ring; owned by the reader

	gone   chan struct{} // closed when the client or the server has gone
	hangUp func()        // closes it
}

// serve runs one client until it leaves, breaks the protocol or ctx ends.
func (s *Server) serve(ctx context.Context, sock *net.UnixConn) {
	c := &conn{server: s, sock: sock, notify: -1, memory: gem.NewTable[*memory]("grant", maxMemories), gone: make(chan struct{})}
	c.hangUp = sync.OnceFunc(func() { close(c.gone) })
	c.name("client")
	unhook := context.AfterFunc(ctx, func() {
		c.hangUp()
		_ = sock.Close() // ends the read below
	})
	defer unhook()
	err := c.read()
	if err != nil && ctx.Err() == nil {
		c.log.Warn("client disconnected", zap.Error(err))
	}
	c.close()
}

// name sets what the client is called.
func (c *conn) name(name string) {
	c.label = name
	c.log = c.server.log.With(zap.String("client", name))
}

func (c *conn) close() {
	if c.session != nil {
		c.session.Close()
	}
	_ = c.sock.Close() // nothing is written any more; the same holds for the pipes
	if c.kick != nil {
		_ = c.kick.Close()
	}
	if c.notify >= 0 {
		_ = unix.Close(c.notify)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.memory.All {
		m.drop()
	}
}

// read serves the socket. Each message is answered before the next is read.
func (c *conn) read() error {
	buf := make([]byte, 4096)
	oob := make([]byte, unix.CmsgSpace(4*4))
	for {
		n, oobn, flags, _, err := c.sock.ReadMsgUnix(buf, oob)
		fds, bad := unixsock.Descriptors(oob[:oobn]) // also of a message that ends the connection
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || err == nil && n == 0 {
			unixsock.Close(fds)
			return nil
		}
		if err != nil {
			unixsock.Close(fds)
			return fmt.Errorf("reading: %w", err)
		}
		if err = bad; err == nil {
			if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
				err = fmt.Errorf("message cut: %w", hypercall.ErrMessage)
			} else {
				err = c.message(buf[:n], fds)
			}
		}
		unixsock.Close(fds) // those that are needed were duplicated
		if err != nil {
			return err
		}
	}
}

// message serves one request. An error ends the connection; what is only wrong
// with the request is answered with an errno.
func (c *conn) message(b []byte, fds []int) error {
	m, rest, err := hypercall.DecodeLocal(b)
	if err != nil {
		return err
	}
	if (c.kick == nil) != (m.Op == hypercall.LocalHello) {
		return fmt.Errorf("local operation %d out of order: %w", m.Op, hypercall.ErrMessage)
	}
	c.server.doorbells.Add(1)
	answer := hypercall.LocalMessage{Op: m.Op}
	var tail []byte
	var send []int
	if want := descriptors[m.Op]; len(fds) != want {
		err = fmt.Errorf("%d descriptors, want %d: %w", len(fds), want, unix.EINVAL)
	} else {
		switch m.Op {
		case hypercall.LocalHello:
			answer.Version = hypercall.LocalVersion
			if tail, send, err = c.hello(m, rest); err == nil {
				defer unixsock.Close(send) // the client has its own copies by then
			}
		case hypercall.LocalGrant:
			answer.ID, answer.Size, err = c.grant(fds[0])
		case hypercall.LocalExport:
			var mem *memory
			if mem, err = c.find(m.ID); err == nil {
				send = []int{mem.region.FD()} // the region is ours while the client is served
			}
		case hypercall.LocalFree:
			err = c.free(m.ID)
		case hypercall.LocalAttach:
			err = c.attach(rest)
		}
	}
	if err != nil {
		c.log.Debug("request failed", zap.Uint16("operation", uint16(m.Op)), zap.Error(err))
		answer.Errno = uint16(translate.Errno(err))
	}
	_, _, err = c.sock.WriteMsgUnix(append(answer.Encode(), tail...), unix.UnixRights(send...), nil)
	if err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

// descriptors is how many come with a request, where there are any.
var descriptors = map[hypercall.LocalOp]int{hypercall.LocalGrant: 1}

// hello makes the two pipes. Each side has its own end of each: unlike an eventfd,
// which both would share, the client can neither fill nor unblock ours.
func (c *conn) hello(m hypercall.LocalMessage, name []byte) (tail []byte, send []int, err error) {
	if m.Version != hypercall.LocalVersion {
		return nil, nil, fmt.Errorf("the client speaks version %d of the local carrier, want %d: %w", m.Version, hypercall.LocalVersion, unix.EPROTONOSUPPORT)
	}
	var kick, notify [2]int // reading end, writing end
	if err = unix.Pipe2(kick[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err == nil {
		if err = unix.Pipe2(notify[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			unixsock.Close(kick[:])
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("doorbell: %w", os.NewSyscallError("pipe2", err))
	}
	if len(name) > 0 && len(name) <= hypercall.MaxClientName {
		c.name(sample.Printable(string(name), drm.MaxName))
	}
	c.kick, c.notify = os.NewFile(uintptr(kick[0]), "kick"), notify[1]
	return c.server.capset().Encode(), []int{kick[1], notify[0]}, nil
}

func (c *conn) find(id uint32) (*memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Get(id)
}

// grant adds memory to what the client has.
func (c *conn) grant(fd int) (id uint32, size uint64, err error) {
	m, err := c.server.grant(fd)
	if err != nil {
		return 0, 0, err
	}
	c.mu.Lock()
	id, err = c.memory.Add(m)
	c.mu.Unlock()
	if err != nil {
		m.drop()
		return 0, 0, err
	}
	return id, m.Size(), nil
}

// free takes memory back from the client's session, and waits for that: the answer says that
// nothing uses the pages any more. Other connections do not wait; this one is a file of one
// process, whose requests are answered one after the other. Only that the client hangs up is
// noticed meanwhile.
func (c *conn) free(id uint32) error {
	c.mu.Lock()
	m, err := c.memory.Take(id)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if c.session != nil {
		done := make(chan struct{})
		c.session.Revoke(id, func() { close(done) })
		select {
		case <-done:
		case <-c.gone:
			c.session.End() // or what it waits for holds on to what the client had
			<-done
		}
	}
	m.drop()
	return nil
}

func (c *conn) attach(rest []byte) error {
	d, err := hypercall.DecodeDoorbell(rest)
	if err != nil {
		return fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	if d.Op != hypercall.DoorbellAttach || c.session != nil {
		return fmt.Errorf("attach out of order: %w", unix.EBUSY)
	}
	s, err := c.server.attach(c, d)
	if err != nil {
		return err
	}
	c.session = s
	go c.listen(s)
	go func() {
		<-s.Ended()
		_ = c.sock.Close() // a client that broke the protocol; ends the reader
	}()
	return nil
}

// listen hands doorbells to the session until the pipe is closed, at the latest when the client
// has ended.
func (c *conn) listen(s session.Attached) {
	defer c.hangUp()
	var rings [4096]byte
	for {
		n, err := c.kick.Read(rings[:])
		if err != nil {
			return
		}
		c.server.doorbells.Add(uint64(n)) // a byte for each
		s.Kick()
	}
}

// Grant is part of session.Carrier.
func (c *conn) Grant(id uint32) (session.Grant, error) {
	m, err := c.find(id)
	if err != nil {
		return nil, err // not a nil *memory in an interface
	}
	return m, nil
}

// Notify is part of session.Carrier.
func (c *conn) Notify() {
	c.server.interrupts.Add(1)
	_, _ = unix.Write(c.notify, []byte{1}) // fails when the pipe is full: then the client is awake; or when it is gone
}

// Counts is part of session.Carrier.
func (c *conn) Counts() (doorbells, interrupts uint64) {
	return c.server.doorbells.Load(), c.server.interrupts.Load()
}
