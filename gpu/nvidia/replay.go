package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/workers"
)

// A worker may end without a fault of its guest: an administrator killed it, or the arbiter
// wants the GPU for another guest that has waited long enough, and only the end of the
// process stops a kernel. If all work of a context was tasks (gpu.Task), nothing is lost
// with its memory: the context gets a new worker, which maps the same memory at the same
// addresses and runs the incomplete tasks again. This is the replay of TReM (Pavlidakis,
// ch. 4), with the end of a process in place of a trap, since a trap ends the process too.

// Bounds on replays. What was revoked Config.MaxReplays times, by default defaultReplays, runs to its
// end, even while other guests wait. A context whose worker ends maxLosses times without a completed
// batch in between is lost.
const (
	defaultReplays = 3
	maxLosses      = 4
)

// reloadLimit bounds the time to compile a module again for a replay. The first compilation
// took about as long.
const reloadLimit = 20 * time.Second

// errRevoked reports that a command was revoked from the GPU and has to run again.
var errRevoked = errors.New("cuda: revoked")

// watch waits for the end of a worker, and rebuilds or ends the context.
func (c *context) watch(p *process) {
	<-p.Gone()
	c.mu.Lock()
	defer c.mu.Unlock()
	why := fmt.Sprintf("the CUDA worker ended: %v", p.Reason())
	if reason := c.why.Swap(nil); reason != nil {
		why = fmt.Sprintf("%s (%s)", why, *reason)
	}
	if c.worker != p || c.rebuild(why) { // another has taken its place
		return
	}
	// No effect if the end of the context ended the worker.
	c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: why})
}

// revivable reports whether a new worker can replace the context's worker: no state is
// lost with it. c.mu or c.gen is held.
func (c *context) revivable() bool {
	return c.Err() == nil && c.losses.Load() < maxLosses && (!c.mixed.Load() || c.lasts() == nil)
}

// overstays reports whether a command has to yield the GPU to another guest's.
func (c *channel) overstays(f *flying, waited time.Duration) bool {
	limit := c.ctx.dev.config.RevokeAfter
	return limit > 0 && waited > limit && f.batch.replays < c.ctx.dev.config.MaxReplays &&
		f.engine != nil && f.engine.wanted() && c.ctx.revivable()
}

// stopWorker ends the worker and notifies its waiters. lifeMu is held.
func (c *context) stopWorker() {
	if !c.revoked {
		c.revoked = true
		close(c.over)
	}
	c.worker.Kill()
}

// revoke takes the GPU away from the context; watch then rebuilds the context.
func (c *context) revoke() {
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	if !c.worker.Over() { // its fences may still advance
		c.torn.CompareAndSwap(nil, new("its worker was killed"))
	}
	c.stopWorker()
}

// wakeWorker wakes a worker that sleeps.
func (c *context) wakeWorker() {
	if c.gen.TryRLock() { // otherwise a new worker starts, awake
		if c.worker.lane.load(offSleeping) != 0 {
			c.worker.ring()
		}
		c.gen.RUnlock()
	}
}

// rebuild starts a new worker for a context whose worker has ended, or was taken off the GPU. It
// returns false if that is not possible, and the context stays lost. c.mu is held.
func (c *context) rebuild(why string) bool {
	if !c.revivable() {
		return false
	}
	old, off := c.worker, c.isOff()
	if !off {
		if c.mixed.Load() {
			old.Kill()
			<-old.Gone() // before channels look at their fences
		}
		c.revoke()
	}
	c.gen.Lock() // the channels have left the lane
	defer c.gen.Unlock()
	if lost := c.torn.Load(); lost != nil && c.mixed.Load() {
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("%s; %s", why, *lost)})
		return true
	}
	c.torn.Store(nil)
	if !off {
		<-old.Gone() // the GPU no longer accesses its memory
	}
	var replaced []*process // to be ended when another has taken over what they have
	defer func() {
		c.retire(replaced)
		c.dev.pool.fill()
	}()
	for {
		p, err := c.dev.pool.take()
		if err != nil { // one that dies as it starts may do so for the reason for which this one did
			if errors.Is(err, workers.ErrKeeper) || c.losses.Add(1) >= maxLosses {
				return false
			}
			continue
		}
		if !c.replace(p) {
			p.end()
			return false
		}
		if !off { // its worker died
			c.losses.Add(1)
		}
		off = false
		replaced, old = append(replaced, old), p
		if err = errors.Join(c.restore(), c.renewed()); err == nil {
			return true
		}
		why = fmt.Sprintf("%s; what it had could not be made again: %v", why, err)
		if _, refused := errors.AsType[*driverError](err); refused || c.losses.Load() >= maxLosses {
			c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: why})
			return true
		}
		// It ended meanwhile.
	}
}

// replace makes a process the context's worker. It returns false if the context has ended. c.mu and
// gen are held.
func (c *context) replace(p *process) bool {
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	if c.Err() != nil {
		return false
	}
	c.worker, c.over, c.revoked, c.off = p, make(chan struct{}), false, false
	c.built++
	c.graphs.renew()
	c.dev.replays.Add(1)
	go c.watch(p)
	return true
}

// retire ends workers whose place others have taken. c.mu is held.
func (c *context) retire(list []*process) {
	c.retired = append(slices.DeleteFunc(c.retired, (*process).over), list...)
	for _, p := range list {
		go p.end()
	}
}

// awaitRetired waits until the workers are gone whose place others have taken. c.mu is held.
func (c *context) awaitRetired() {
	for _, p := range c.retired {
		<-p.Gone()
	}
	c.retired = nil
}

// restore makes the context's memory, mappings and modules in a new worker. c.mu and gen
// are held.
func (c *context) restore() error {
	for m := range c.memories {
		if m.runs == nil {
			if err := m.reallocate(); err != nil {
				return err
			}
		}
	}
	for m := range c.modules {
		if err := m.reload(); err != nil {
			return err
		}
	}
	for _, x := range c.space.all() {
		if x.mem == nil {
			continue // a variable
		}
		q, fds := x.request()
		if err := c.worker.do(q, fds, &reply{}); err != nil {
			return err
		}
	}
	for slot, ch := range c.channels {
		if ch == nil {
			continue
		}
		if err := c.worker.do(&request{Op: opOpen, Slot: slot}, nil, &reply{}); err != nil {
			return err
		}
	}
	return nil
}

// reload loads a module into a new worker. Its machine code is usually cached.
func (m *module) reload() error {
	ctx, cancel := gocontext.WithTimeout(gocontext.Background(), reloadLimit)
	defer cancel()
	image, err := m.image(ctx)
	if err != nil {
		return err
	}
	q := m.load
	q.Image = image
	var r reply
	if err := m.ctx.worker.do(&q, nil, &r); err != nil {
		return err
	}
	if len(r.Functions) != len(q.Names) || len(r.Vars) != len(q.Vars) {
		return errAnswer
	}
	m.found(q.Names, r.Functions)
	for i, name := range q.Vars {
		if v, known := m.vars[name]; known && v != r.Vars[i] {
			return fmt.Errorf("variable %s lies at %#x now; it was at %#x", name, r.Vars[i].Addr, v.Addr)
		}
	}
	return nil
}
