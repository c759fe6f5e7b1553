package gloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// server is one of the two servers with its clients, on the loopback. A client sends requests of in
// bytes and gets answers of out bytes. A request that begins with four bytes 0xff ends a server's
// block, which answers nothing.
type server struct {
	*job
	in, out  int
	clients  int
	requests int // of a client in a unit of work
	// request makes a client's n-th request; check compares the answer with what it should be.
	request func(client, n int) []byte
	check   func(client, n int, answer []byte) error
	// answer computes an answer on the GPU, for versions whose sockets the host reads.
	answer func(request, answer []byte) error
	// serve starts the version on the event loop, which listens on an address for each block, and
	// returns a function that waits for its end.
	serve func(context.Context) (addresses []string, wait func() error, err error)
	gpu   sync.Mutex
}

// patience is how long a client waits for an answer, besides the pauses of those before it: a block serves one client
// after another.
const patience = 2 * time.Minute

// deadline is when a client gives up that asks now.
func (s *server) deadline() time.Time {
	return time.Now().Add(patience + time.Duration(s.requests*s.clients)*s.Pause)
}

// ending is how a request begins that ends a block.
var ending = []byte{0xff, 0xff, 0xff, 0xff}

func (s *server) task() task {
	work := func() error {
		before, began := s.phases.Total(), time.Now()
		if s.Version.loops() {
			return s.timed(&s.phases.Kernel, s.loopServer)
		}
		err := s.hostServer()
		s.phases.IO += max(time.Since(began).Seconds()-(s.phases.Total()-before), 0) // while the GPU has nothing to do
		return err
	}
	return task{work: work, check: func() error { return nil }} // the clients have compared each answer
}

// loopServer has the clients ask a server on the event loop.
func (s *server) loopServer() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addresses, wait, err := s.serve(ctx)
	if err != nil {
		return err
	}
	err = s.ask(addresses)
	for _, a := range addresses {
		if err == nil {
			err = s.end(a)
		}
	}
	if err != nil {
		cancel() // blocks may be waiting still
	}
	return errors.Join(err, wait())
}

// end ends a block of the server.
func (s *server) end(address string) error {
	c, err := s.dial(address)
	if err != nil {
		return err
	}
	last := make([]byte, s.in)
	copy(last, ending)
	_, err = c.Write(last)
	return errors.Join(err, c.Close())
}

// dial connects to a server that listens.
func (s *server) dial(address string) (net.Conn, error) {
	c, err := net.Dial("tcp4", address)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(s.deadline())
}

// hostServer has the clients ask a server whose sockets the host reads.
func (s *server) hostServer() (err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed below
			}
			served.Go(func() { _ = s.connection(c) }) // the client sees the connection's end
		}
	})
	err = s.ask([]string{l.Addr().String()})
	err = errors.Join(err, l.Close())
	served.Wait()
	return err
}

// connection serves a client.
func (s *server) connection(c net.Conn) (err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	request, answer := make([]byte, s.in), make([]byte, s.out)
	for {
		if _, err := io.ReadFull(c, request); err != nil {
			return err
		}
		s.gpu.Lock()
		err := s.answer(request, answer)
		s.gpu.Unlock()
		if err != nil {
			return err
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// ask has all clients make their requests. Client i asks address i.
func (s *server) ask(addresses []string) error {
	results := make(chan error, s.clients)
	for i := range s.clients {
		go func() { results <- s.client(i, addresses[i%len(addresses)]) }()
	}
	var err error
	for range s.clients {
		err = errors.Join(err, <-results)
	}
	return err
}

func (s *server) client(number int, address string) (err error) {
	c, err := s.dial(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	answer := make([]byte, s.out)
	for n := range s.requests {
		time.Sleep(s.Pause)
		if err := c.SetDeadline(s.deadline()); err != nil {
			return err
		}
		if _, err := c.Write(s.request(number, n)); err != nil {
			return fmt.Errorf("client %d, request %d: %w", number, n, err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return fmt.Errorf("client %d, answer %d: %w", number, n, err)
		}
		if err := s.check(number, n, answer); err != nil {
			return fmt.Errorf("client %d, request %d: %w", number, n, err)
		}
		s.unit()
	}
	return nil
}
