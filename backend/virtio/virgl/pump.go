package virgl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/internal/hostmem"
)

// pump is the goroutine that turns commands into requests to the worker. All of
// its fields are its own.
type pump struct {
	*Renderer
	helper    *helper // nil while there is none
	started   time.Time
	contexts  map[uint32]*context
	resources map[uint32]*resource
	regions   map[*hostmem.Region]*region
	lastID    uint32                 // of a region
	pending   map[uint64]func(error) // what is out, by number
	order     []uint64               // the same, in order; some may have ended
	progress  time.Time              // since when the first of them is the first
	turn      turn
	shot      shot
}

// context is a context that the guest has.
type context struct {
	charged bool
	lost    bool // with the worker that had it, or never made
}

// resource is a resource that the guest has.
type resource struct {
	bytes uint64 // charged
	pages *virtgpu.Pages
	lost  bool // with the worker that had it, or never made
}

// region is a part of the guest's RAM that the worker has mapped.
type region struct {
	id    uint32
	users int // resources that have pages there
}

func newPump(r *Renderer, s shot) *pump {
	return &pump{Renderer: r, started: time.Now(), shot: s,
		contexts: map[uint32]*context{}, resources: map[uint32]*resource{}, regions: map[*hostmem.Region]*region{},
		pending: map[uint64]func(error){}, turn: turn{gate: r.cfg.Gate, beside: r.cfg.Beside, counters: &r.stats}}
}

// work is the goroutine.
func (p *pump) work() {
	defer close(p.ended)
	defer p.shot.close()
	watch := time.NewTimer(p.cfg.Limit)
	defer watch.Stop()
	for {
		if p.advance() {
			return
		}
		var ready chan struct{}
		if p.helper != nil {
			ready = p.helper.ready
		}
		watch.Reset(p.patience())
		select {
		case <-p.wake:
		case <-p.turn.admitted:
			p.turn.enterNow()
		case <-ready:
			p.receive()
		case <-watch.C:
			if p.patience() == 0 {
				p.lose(fmt.Errorf("it did not end what it does within %v", p.cfg.Limit))
			}
		}
	}
}

// patience is how long the worker may go on until it is given up.
func (p *pump) patience() time.Duration {
	if len(p.pending) == 0 {
		return p.cfg.Limit
	}
	since := p.progress
	if p.turn.inside && p.turn.began.Before(since) { // an arbiter gives up who keeps a turn for too long
		since = p.turn.began
	}
	return max(0, time.Until(since.Add(p.cfg.Limit)))
}

// receive takes the answers that are there.
func (p *pump) receive() {
	h := p.helper
	for _, a := range h.take() {
		if p.helper != h {
			return // what the others belong to has ended with the worker
		}
		p.answered(a)
	}
}

// answered is that a reply came, or that no more will.
func (p *pump) answered(a answer) {
	if errors.Is(a.err, io.EOF) {
		a.err = errors.New("it has ended")
	}
	if a.err != nil {
		p.lose(a.err)
		return
	}
	then := p.pending[a.number]
	if then == nil {
		p.lose(fmt.Errorf("%w: an answer to no request", errFrame))
		return
	}
	delete(p.pending, a.number)
	for len(p.order) > 0 && p.pending[p.order[0]] == nil {
		p.order = p.order[1:]
		p.progress = time.Now()
	}
	var err error
	if a.errno != 0 {
		err = a.errno
	}
	then(err)
}

// advance begins what can begin. It is true when all is over.
func (p *pump) advance() (over bool) {
	for {
		c := p.next()
		if c == nil || c.meta == noMeta && !p.mayBegin(c) {
			break
		}
		if !p.take(c) {
			continue
		}
		switch c.meta {
		case noMeta:
			p.begin(c)
		default:
			p.forget(c.meta == metaClose)
			c.done(nil)
			if c.meta == metaClose {
				return true
			}
		}
	}
	p.turn.leave(p.next() != nil)
	return false
}

// mayBegin reports whether a command may begin now. Those behind it wait too: they
// may depend on it.
func (p *pump) mayBegin(c *command) bool {
	switch c.op {
	case opSubmit, opToHost, opFromHost:
		if p.turn.enter() {
			return true
		}
		p.turn.leave(true) // the time of this turn is over
		return p.turn.enter()
	case opRead:
		return !p.shot.busy
	}
	return true
}

// begin begins a command, or refuses it.
func (p *pump) begin(c *command) {
	p.stats.commands.Add(1)
	if err := p.tryBegin(c); err != nil {
		p.stats.failed.Add(1)
		c.end(err)
	}
}

func (p *pump) tryBegin(c *command) error {
	switch c.op {
	case opContextCreate:
		return p.createContext(c)
	case opContextDestroy:
		return p.destroyContext(c)
	case opResourceCreate:
		return p.createResource(c)
	case opResourceDestroy:
		return p.destroyResource(c)
	case opBackingAttach:
		return p.attachBacking(c)
	case opBackingDetach:
		return p.detachBacking(c)
	case opRead:
		return p.read(c)
	}
	if ctx := p.contexts[c.words[0]]; ctx == nil || ctx.lost {
		return fmt.Errorf("context %d: %w", c.words[0], ErrLost)
	}
	switch c.op {
	case opSubmit:
		return p.submit(c)
	case opDetach: // also of a resource that is lost
	default:
		if res := p.resources[c.words[1]]; res == nil || res.lost {
			return fmt.Errorf("resource %d: %w", c.words[1], ErrLost)
		}
	}
	if c.op == opToHost || c.op == opFromHost {
		return p.used(c)
	}
	return p.ask(c, c.end)
}

// ask sends the request of a command. A failure loses the worker.
func (p *pump) ask(c *command, then func(error)) error {
	return p.send(&c.request, c.payload, -1, func(err error) {
		if err != nil {
			p.stats.failed.Add(1)
		}
		then(refusal(c.op, err))
	})
}

// send sends a request. Then is called with the reply, unless send fails.
func (p *pump) send(q *request, payload []byte, fd int, then func(error)) error {
	if p.helper == nil {
		return ErrLost
	}
	n, err := p.helper.send(q, payload, fd)
	if err != nil {
		p.lose(err)
		return ErrLost
	}
	if len(p.pending) == 0 {
		p.progress = time.Now()
	}
	p.pending[n] = then
	p.order = append(p.order, n)
	return nil
}

// used sends a request that takes time of the GPU and has ended with its reply.
func (p *pump) used(c *command) error {
	p.turn.begin()
	err := p.ask(c, func(err error) {
		p.turn.end()
		c.end(err)
	})
	if err != nil {
		p.turn.end()
	}
	return err
}

// submit sends the commands of a SUBMIT_3D, and a fence behind them where the
// guest asked for one or somebody has to know how long they took.
func (p *pump) submit(c *command) error {
	p.stats.submits.Add(1)
	if !c.fenced && p.turn.gate == nil {
		return p.used(c)
	}
	answered := false
	finish := func(err error) {
		if !answered {
			answered = true
			c.end(err)
		}
	}
	p.turn.begin()
	err := p.ask(c, func(err error) {
		if err != nil || !c.fenced {
			finish(err)
		}
	})
	if err != nil {
		p.turn.end()
		return err
	}
	err = p.send(&request{op: opFence}, nil, -1, func(err error) {
		p.turn.end()
		finish(refusal(opFence, err))
	})
	if err != nil { // the worker is lost, and the command has been answered
		p.turn.end()
	}
	return nil
}

// need starts a worker if there is none.
func (p *pump) need() error {
	if p.helper != nil {
		p.current.Store(p.helper)
		return nil
	}
	p.turn.leave(false)
	// One that a guest crashes again and again is not started as fast as it can.
	time.Sleep(time.Until(p.started.Add(startInterval)))
	p.started = time.Now()
	h, err := startHelper(p.keeper, p.cfg)
	if err != nil {
		p.cfg.Log.Error("no renderer for a guest", zap.Error(err))
		return err
	}
	p.helper = h
	p.current.Store(h)
	p.stats.workers.Add(1)
	return nil
}

// startInterval is the least time between two starts of workers.
const startInterval = time.Second

// lose ends the worker: all that it had is lost, and what is out has failed.
func (p *pump) lose(why error) {
	if p.helper == nil {
		return
	}
	if errors.Is(why, net.ErrClosed) { // which clear does
		p.drop(virtgpu.ErrGone)
		return
	}
	p.cfg.Log.Error("lost a guest's renderer; its contexts are lost", zap.Error(why))
	p.stats.lost.Add(1)
	p.drop(ErrLost)
}

// drop ends the worker. What is out ends with an error.
func (p *pump) drop(why error) {
	if p.helper != nil {
		h := p.helper
		p.helper = nil
		p.current.Store(nil)
		if err := h.end(); err != nil {
			p.cfg.Log.Error("cannot end a renderer", zap.Error(err))
		}
	}
	// The process is gone: it reaches no page of the guest any more.
	for _, ctx := range p.contexts {
		ctx.lost = true
	}
	for _, res := range p.resources {
		res.lost = true
		p.giveBack(res)
	}
	clear(p.regions)
	p.shot.forget()
	// Only now: who hears of it may make anew what was lost at once.
	pending := p.pending
	p.pending, p.order = map[uint64]func(error){}, nil
	for _, then := range pending {
		then(why)
	}
}

// forget ends the worker and forgets all that the guest had. A worker that did
// nothing yet may stay for the guest's next start.
func (p *pump) forget(all bool) {
	if all || p.current.Load() != nil {
		p.drop(virtgpu.ErrGone)
	}
	p.turn.cancel()
	for id, ctx := range p.contexts {
		p.dropContext(id, ctx)
	}
	clear(p.resources)
}

// charge charges the guest for n of something.
func (p *pump) charge(r quota.Resource, n uint64) error {
	if p.cfg.Quota == nil {
		return nil
	}
	return p.cfg.Quota.Take(r, n)
}

func (p *pump) discharge(r quota.Resource, n uint64) {
	if p.cfg.Quota != nil {
		p.cfg.Quota.Give(r, n)
	}
}
