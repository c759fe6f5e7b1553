package file

import (
	"context"
	"slices"
	"sync"
	"time"

	"pvdrm/gem/quota"
)

// maxCompiling is how many modules of a guest compile at a time.
const maxCompiling = 2

// compiler admits the compilations of a guest: maxCompiling at a time, in the order in which
// they arrive, and only while there is module memory for them. A compilation needs more memory
// than the module that comes of it, so the first that waits gets what another frees.
type compiler struct {
	mu      sync.Mutex
	running int
	waiting []*compilation // at most one of each file
	limit   time.Duration  // 0: DefaultCompileTime
}

// compilation is one that waits.
type compilation struct {
	need     uint64
	admitted chan error // gets one value, when the compilation may begin or cannot
}

// Compiling returns how many modules of the guest compile, and how many wait for their turn.
func (g *Guest) Compiling() (running, waiting int) {
	g.compiler.mu.Lock()
	defer g.compiler.mu.Unlock()
	return g.compiler.running, len(g.compiler.waiting)
}

// admit waits until a compilation may begin, and takes its memory. The error is the
// quota's, or tells why ctx ended. A caller that was admitted calls leave.
func (c *compiler) admit(ctx context.Context, g *Guest, need uint64) error {
	me := &compilation{need: need, admitted: make(chan error, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, me)
	c.next(g)
	c.mu.Unlock()
	select {
	case err := <-me.admitted:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, me); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		c.next(g) // which may have waited for this one's turn
		return context.Cause(ctx)
	}
	if err := <-me.admitted; err != nil {
		return err
	}
	g.Give(quota.ModuleMemory, need)
	c.running--
	c.next(g)
	return context.Cause(ctx)
}

// leave ends a compilation. What it took of the quotas the caller has given back or keeps.
func (c *compiler) leave(g *Guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.next(g)
}

// next admits those whose turn it is. Preconditions: mu is held.
func (c *compiler) next(g *Guest) {
	for len(c.waiting) > 0 && c.running < maxCompiling {
		first := c.waiting[0]
		if c.running > 0 && first.need > g.Left(quota.ModuleMemory) {
			return // until one that runs gives some back
		}
		err := g.Take(quota.ModuleMemory, first.need)
		if err == nil {
			c.running++
		}
		c.waiting = slices.Delete(c.waiting, 0, 1)
		first.admitted <- err
	}
}
