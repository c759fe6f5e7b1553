package arbiter

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Lost is the behaviour of a backend while there is no arbiter.
type Lost int

// Behaviours while there is no arbiter.
const (
	// GoAlone runs all commands at once, as the sole user of the GPU.
	GoAlone Lost = iota
	// WaitForArbiter runs no command until there is one.
	WaitForArbiter
)

// GateConfig configures a Gate.
type GateConfig struct {
	// Connect takes a seat at the arbiter, at first and after each loss. Take does so where this
	// process may connect; a confined backend asks its parent. The Gate owns the seat. Connect
	// returns a *RefusedError if an arbiter refuses this guest. A nil Connect means that there
	// is no arbiter and never will be.
	Connect func() (*Seat, error)
	// WhenLost is the behaviour while no arbiter answers.
	WhenLost Lost
	// Backoff is the time between the first attempts to connect; it doubles up
	// to MaxBackoff. 0 stands for DefaultBackoff and DefaultMaxBackoff.
	Backoff, MaxBackoff time.Duration
	// Preemptible declares that the device asks Preempted while its commands run. The arbiter
	// then stops commands by its policy, where it would wait for their ends otherwise.
	Preemptible bool
	// Turns declares that the GPU serves what it has of several backends in turn. Policies that
	// measure what each uses (sched.Disengaged) have several backends' commands there at the same time.
	Turns bool
	Log   *zap.Logger

	dial func() (link, *page, error) // replaces Connect in tests
}

// Defaults of GateConfig.
const (
	DefaultBackoff    = 20 * time.Millisecond
	DefaultMaxBackoff = 2 * time.Second
)

// Join connects to the arbiter. If there is none, the Gate behaves as by WhenLost and
// keeps trying. If the arbiter refuses the backend, Join returns a *RefusedError.
func Join(cfg GateConfig) (*Gate, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = DefaultBackoff
	}
	if cfg.MaxBackoff <= 0 {
		cfg.MaxBackoff = DefaultMaxBackoff
	}
	if cfg.Connect != nil {
		cfg.dial = func() (link, *page, error) {
			s, err := cfg.Connect()
			if err != nil {
				return nil, nil, err
			}
			return s.open()
		}
	}
	g := &Gate{cfg: cfg, log: cfg.Log, stop: make(chan struct{}), ended: make(chan struct{})}
	g.page.Store(openPage())
	if cfg.dial == nil {
		close(g.ended)
		return g, nil
	}
	var refused *RefusedError
	l, p, err := cfg.dial()
	switch {
	case errors.As(err, &refused):
		return nil, err
	case err != nil:
		g.log.Warn("no arbiter yet", zap.Error(err), zap.Bool("alone", cfg.WhenLost == GoAlone))
		if cfg.WhenLost == WaitForArbiter {
			g.page.Store(privatePage())
		}
	default:
		g.mu.Lock()
		g.change(p, l)
		g.mu.Unlock()
	}
	go g.run(l)
	return g, nil
}

// Close leaves the arbiter. Commands that wait then, or later, may run: the caller
// ensures that there are none.
func (g *Gate) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.stop)
		if g.link != nil {
			g.link.close()
		}
	}
	g.mu.Unlock()
	<-g.ended
}

// run serves the connection, and connects again when it is lost.
func (g *Gate) run(l link) {
	defer close(g.ended)
	for {
		if l != nil {
			g.lose(g.read(l))
			l.close()
		}
		if l = g.reconnect(); l == nil {
			g.mu.Lock()
			g.change(openPage(), nil)
			g.mu.Unlock()
			return
		}
	}
}

// read serves the connection to its end.
func (g *Gate) read(l link) error {
	for {
		m, err := l.receive()
		if err != nil {
			return err
		}
		switch m.op {
		case opGrant:
			g.granted(m.engine)
		case opRefuse:
			return &RefusedError{unix.Errno(m.value), m.text}
		default:
			return fmt.Errorf("%v from the arbiter: %w", m.op, ErrWire)
		}
	}
}

// lose handles the loss of the connection. An arbiter that disconnects a backend still
// serves others, and a backend that went on alone would take their time.
func (g *Gate) lose(err error) {
	var refused *RefusedError
	alone := g.cfg.WhenLost == GoAlone && !errors.As(err, &refused)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost++
	if g.closed {
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it has closed the connection")
	}
	g.log.Warn("the arbiter is lost", zap.Error(err), zap.Bool("alone", alone))
	g.waitOrGo(alone)
}

// waitOrGo changes to a page without an arbiter. g.mu is held.
func (g *Gate) waitOrGo(alone bool) {
	p := privatePage()
	if alone {
		p = openPage()
	}
	g.change(p, nil)
}

// reconnect connects again. It returns nil when the Gate is closed.
func (g *Gate) reconnect() link {
	backoff := g.cfg.Backoff
	for {
		// Half of the time is random: many backends lose their arbiter at once.
		select {
		case <-g.stop:
			return nil
		case <-time.After(backoff/2 + rand.N(backoff/2+1)):
		}
		l, p, err := g.cfg.dial()
		if err == nil {
			g.mu.Lock()
			if g.closed {
				g.mu.Unlock()
				l.close()
				return nil
			}
			g.change(p, l)
			g.mu.Unlock()
			g.log.Info("joined the arbiter")
			return l
		}
		var refused *RefusedError
		if errors.As(err, &refused) {
			g.log.Warn("cannot join the arbiter", zap.Error(err))
		} else if g.cfg.WhenLost == GoAlone {
			// It may have ended after it had disconnected this backend.
			g.mu.Lock()
			if g.page.Load().load(Compute)&bitHeld == 0 {
				g.waitOrGo(true)
			}
			g.mu.Unlock()
		}
		backoff = min(2*backoff, g.cfg.MaxBackoff)
	}
}
