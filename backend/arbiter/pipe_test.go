package arbiter

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// pipe is one end of a link within the process, for tests in virtual time.
type pipe struct {
	out, in chan message
	done    chan struct{} // shared by both ends
	once    *sync.Once
}

func newPipe() (a, b *pipe) {
	x, y := make(chan message, 64), make(chan message, 64)
	done, once := make(chan struct{}), new(sync.Once)
	return &pipe{out: x, in: y, done: done, once: once}, &pipe{out: y, in: x, done: done, once: once}
}

func (p *pipe) send(m message) error {
	select {
	case <-p.done:
		return io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- m:
		return nil
	default:
		return errors.New("the other side does not read")
	}
}

func (p *pipe) receive() (message, error) {
	select {
	case m := <-p.in: // what was sent before the end comes first
		return m, nil
	default:
	}
	select {
	case m := <-p.in:
		return m, nil
	case <-p.done:
		return message{}, io.EOF
	}
}

func (p *pipe) close() { p.once.Do(func() { close(p.done) }) }

// host is an arbiter within the process.
type host struct {
	t  *testing.T
	mu sync.Mutex
	s  *Server // nil while there is none
}

func newHost(t *testing.T, cfg Config) *host {
	h := &host{t: t}
	h.start(cfg)
	return h
}

func (h *host) start(cfg Config) {
	s, err := NewServer(cfg)
	require.NoError(h.t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s = s
}

// stop ends the arbiter; start may follow.
func (h *host) stop() {
	h.mu.Lock()
	s := h.s
	h.s = nil
	h.mu.Unlock()
	s.close()
}

// server is the arbiter, nil if there is none.
func (h *host) server() *Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

// dial is what a Gate dials.
func (h *host) dial(hello Hello) func() (link, *page, error) {
	return func() (link, *page, error) {
		l, _, p, err := h.connect(&hello)
		return l, p, err
	}
}

// connect makes a member by hand, who pays for itself.
func (h *host) connect(hello *Hello) (link, *member, *page, error) {
	return h.connectAs(hello, hello.Name)
}

func (h *host) connectAs(hello *Hello, payer string) (link, *member, *page, error) {
	s := h.server()
	if s == nil {
		return nil, nil, nil, unix.ECONNREFUSED
	}
	ours, theirs := newPipe()
	p := privatePage()
	a := s.arenas[hello.GPU]
	m, err := a.join(hello.Name, Peer{PID: 1}, Admission{Share: hello.Share, Needs: hello.Needs, Payer: payer}, p, theirs)
	if err != nil {
		return nil, nil, nil, &RefusedError{unix.EBUSY, err.Error()}
	}
	go func() {
		_ = s.read(context.Background(), a, m) // it ends with the link
		theirs.close()
		a.leave(m)
	}()
	return ours, m, p, nil
}

// gate joins.
func (h *host) gate(name string, share sched.Share, lost Lost) *Gate {
	g, err := Join(GateConfig{WhenLost: lost, dial: h.dial(Hello{Name: name, Share: share})})
	require.NoError(h.t, err)
	return g
}

// run is one command: it reports when it ran.
func run(g *Gate, e Engine, d time.Duration) (from time.Time) {
	if granted := g.Enter(e, false); granted != nil {
		<-granted
	}
	from = time.Now()
	time.Sleep(d)
	g.Leave(e, d, 1, false)
	return from
}
