package cuda

import (
	"errors"
	"fmt"
	"time"

	"pvdrm/gpu"
)

// A worker may end though its guest did nothing wrong: somebody killed it, or the
// arbiter wants the GPU for another guest that has waited long enough, and a kernel
// can be stopped in no other way. If all that a context was ever given are tasks
// (gpu.Task), nothing is lost with its memory: it gets a new worker, in which the
// same memory is mapped at the same addresses, and what had not ended is run
// again. This is the replay of TReM (Pavlidakis, ch. 4), with the end of a process in
// place of a trap, since a trap costs the process too.

// Bounds on running again. A task that was revoked maxReplays times runs to its
// end, whoever waits; a context whose worker ends maxLosses times without a batch
// having ended in between is lost.
const (
	maxReplays = 3
	maxLosses  = 4
)

// errRevoked is that a command was taken off the GPU and is to be run again.
var errRevoked = errors.New("cuda: revoked")

// watch deals with the end of a worker.
func (c *context) watch(p *process) {
	<-p.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	why := fmt.Sprintf("the CUDA worker ended: %v", p.reason)
	if c.worker != p || c.rebuild(why) { // another has taken its place
		return
	}
	// Unless the context has ended before, which is why it is gone.
	c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: why})
}

// revivable reports whether nothing of the context depends on what its worker has.
func (c *context) revivable() bool {
	return c.Err() == nil && !c.mixed.Load() && c.losses.Load() < maxLosses
}

// overstays reports whether a command is to make place for another guest's.
func (c *channel) overstays(f *flying, waited time.Duration) bool {
	limit := c.ctx.dev.config.RevokeAfter
	return limit > 0 && waited > limit && f.batch.task && f.batch.replays < maxReplays &&
		f.engine != nil && f.engine.wanted() && c.ctx.revivable()
}

// stopWorker ends the worker; whoever waits for it sees it. lifeMu is held.
func (c *context) stopWorker() {
	if !c.revoked {
		c.revoked = true
		close(c.over)
	}
	c.worker.kill()
}

// revoke takes the GPU away from the context. Watch builds it anew.
func (c *context) revoke() {
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	c.stopWorker()
}

// wakeWorker rings a worker that sleeps.
func (c *context) wakeWorker() {
	if c.gen.TryRLock() { // else there will be a new one, awake
		if c.worker.lane.load(offSleeping) != 0 {
			c.worker.ring()
		}
		c.gen.RUnlock()
	}
}

// rebuild gives a context whose worker has ended a new one. It returns false if
// that is not possible, and the context still lost. C.mu is held.
func (c *context) rebuild(why string) bool {
	if !c.revivable() {
		return false
	}
	c.revoke()
	c.gen.Lock() // the channels have let go of the lane
	defer c.gen.Unlock()
	old := c.worker
	<-old.gone // the GPU touches nothing of it any more
	p, err := c.dev.keeper.startProcess()
	if err != nil {
		return false
	}
	c.lifeMu.Lock()
	ended := c.Err() != nil
	if !ended {
		c.worker, c.over, c.revoked = p, make(chan struct{}), false
	}
	c.lifeMu.Unlock()
	if ended {
		p.kill()
		<-p.gone
		p.discard()
		return false
	}
	old.discard()
	c.built++
	c.losses.Add(1)
	c.dev.replays.Add(1)
	go c.watch(p)
	if err := c.restore(); err != nil {
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("%s; what it had could not be made again: %v", why, err)})
	}
	return true
}

// restore makes in a new worker what the context has. C.mu and gen are held.
func (c *context) restore() error {
	for m := range c.memories {
		if m.runs == nil {
			if err := c.worker.do(&request{Op: opAllocate, ID: m.id, Size: m.size}, nil, &reply{}); err != nil {
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

// reload loads a module into a new worker.
func (m *module) reload() error {
	q := m.load
	if image, _ := m.ctx.dev.cache.get(q.Image); image != nil {
		q.Image, q.Built = image, true
	}
	var r reply
	if err := m.ctx.worker.do(&q, nil, &r); err != nil {
		return err
	}
	if len(r.Functions) != len(q.Names) || len(r.Vars) != len(q.Vars) {
		return errors.New("the CUDA worker gave a wrong answer")
	}
	for i, name := range q.Names {
		m.kernels[name].handle = r.Functions[i].Handle
	}
	for i, name := range q.Vars {
		if v, known := m.vars[name]; known && v != r.Vars[i] {
			return fmt.Errorf("variable %s lies at %#x now; it was at %#x", name, r.Vars[i].Addr, v.Addr)
		}
	}
	return nil
}
