package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"syscall"

	"pvdrm/drm"
)

// Pools reserve memory by this many bytes, or more where an allocation is larger.
const (
	poolChunk = 2 << 20
	poolAlign = 512
)

// arena is the memory of a pool in one context. Memory.mu guards it.
type arena struct {
	c        *Context
	pool     *Pool
	segments []*segment
}

// segment is an object, cut in spans that lie side by side and fill it.
type segment struct {
	of    *arena
	obj   *object
	idle  uint64 // bytes in spans that are not used
	freed bool   // there are spans that settle may join, or that have work before them
	spans []span
}

// span is a part of a segment. One that is not used may still be, by work that was
// queued before it was freed: those on the stream that it was freed on can have it
// at once, other streams only after that work.
type span struct {
	addr, n uint64
	used    bool
	by      *Stream // that it was freed on, if after is not empty
	after   []point // what it was freed after and is not known to be done
}

// arena returns that of a pool, and makes it at the first use. M.mu is held.
func (m *memory) arena(p *Pool, c *Context) *arena {
	if a := m.arenas[p]; a != nil {
		return a
	}
	if m.arenas == nil {
		m.arenas = map[*Pool]*arena{}
	}
	a := &arena{c: c, pool: p}
	m.arenas[p] = a
	m.pooled.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contexts[c] = struct{}{}
	return a
}

// alloc finds n bytes for the next work of s. It takes, in this order, memory that
// is free or ordered before that work; memory whose work has ended since; new
// memory; and memory that s must wait for.
func (a *arena) alloc(call string, n uint64, s *Stream) (uint64, error) {
	size := (n + poolAlign - 1) &^ (poolAlign - 1)
	if size < n {
		return 0, errorf(call, ErrOutOfMemory, "%d bytes of a pool", n)
	}
	if err := a.settle(call, false); err != nil {
		return 0, err
	}
	follow := a.pool.reuses(PoolReuseFollowEventDependencies)
	g, addr, err := a.take(call, size, s, func(x *span) bool { return x.by == s || follow && a.c.ordered(s, x.after) })
	if err == nil && g == nil && a.pool.reuses(PoolReuseAllowOpportunistic) {
		if err = a.settle(call, true); err == nil {
			g, addr, err = a.take(call, size, s, never)
		}
	}
	if err == nil && g == nil {
		g, addr, err = a.grow(call, size, s)
	}
	if err != nil {
		return 0, err
	}
	a.pool.use(size)
	a.c.memory.note(addr, n, allocation{pooled: g})
	return addr, nil
}

// newSegment makes the object of a segment, or takes the spare one. M.mu is held.
func (m *memory) newSegment(n uint64) (*object, error) {
	if o := m.spare; o != nil && o.size == n {
		m.spare = nil
		return o, nil
	}
	return m.vram.newObject(n)
}

// freeSegment keeps one object of the smallest segments: a program that waits after
// each allocation would make and free one each time. An object that other processes may have is not
// for another pool. M.mu is held.
func (m *memory) freeSegment(o *object) error {
	if page := m.vram.window.page; m.spare == nil && o.key == (drm.Key{}) && o.size == (poolChunk+page-1)&^(page-1) {
		m.spare = o
		return nil
	}
	return m.vram.closeObject(o)
}

// dropSpare frees the spare object. M.mu is held.
func (m *memory) dropSpare() error {
	o := m.spare
	if o == nil {
		return nil
	}
	m.spare = nil
	return m.vram.closeObject(o)
}

// Spans that take may use although there is work before them.
func never(*span) bool  { return false }
func always(*span) bool { return true }

// grow takes from a new segment and, where the device has no memory for one, lets s
// wait for memory or frees what pools do not use.
func (a *arena) grow(call string, size uint64, s *Stream) (*segment, uint64, error) {
	err := a.addSegment(size)
	if err != nil && resultOf(err) == ErrOutOfMemory && a.pool.reuses(PoolReuseAllowInternalDependencies) {
		if g, addr, err := a.take(call, size, s, always); g != nil || err != nil {
			return g, addr, err
		}
	}
	if err != nil && resultOf(err) == ErrOutOfMemory {
		if err := a.c.reclaimLocked(call); err != nil {
			return nil, 0, err
		}
		err = a.addSegment(size)
	}
	if err != nil {
		return nil, 0, a.c.fail(call, fmt.Errorf("%d bytes for a pool: %w", size, err))
	}
	return a.take(call, size, s, never)
}

func (a *arena) addSegment(size uint64) error {
	page := a.c.memory.vram.window.page
	n := (max(size, poolChunk) + page - 1) &^ (page - 1)
	if n < size {
		return syscall.ENOMEM
	}
	if err := a.pool.reserve(n); err != nil {
		return err
	}
	o, err := a.c.memory.newSegment(n)
	if err != nil {
		a.pool.unreserve(n)
		return err
	}
	a.segments = append(a.segments, &segment{of: a, obj: o, idle: o.size, spans: []span{{addr: o.addr, n: o.size}}})
	return nil
}

// take finds unused spans side by side that make up n bytes, are done or usable, and
// lets s wait for them. It returns no segment where there are none.
func (a *arena) take(call string, n uint64, s *Stream, usable func(*span) bool) (*segment, uint64, error) {
	for _, g := range a.segments {
		if g.idle < n {
			continue
		}
		first, sum := 0, uint64(0)
		for i := range g.spans {
			x := &g.spans[i]
			if x.used || len(x.after) > 0 && !usable(x) {
				first, sum = i+1, 0
				continue
			}
			if sum += x.n; sum < n {
				continue
			}
			if err := a.c.follow(call, s, g.spans[first:i+1]); err != nil {
				return nil, 0, err
			}
			return g, g.cut(first, i+1, n), nil
		}
	}
	return nil, 0, nil
}

// cut makes one used span of n bytes of those from first to end, of which the last
// may be longer than is needed.
func (g *segment) cut(first, end int, n uint64) uint64 {
	last := g.spans[end-1]
	x := span{addr: g.spans[first].addr, n: n, used: true}
	parts := []span{x}
	if rest := last.addr + last.n - (x.addr + n); rest > 0 {
		last.addr, last.n = x.addr+n, rest
		parts = append(parts, last)
	}
	g.spans = slices.Replace(g.spans, first, end, parts...)
	g.idle -= n
	return x.addr
}

// free gives a span back, which is in use.
func (g *segment) free(addr uint64, by *Stream, after []point) {
	i := sort.Search(len(g.spans), func(i int) bool { return g.spans[i].addr >= addr })
	x := &g.spans[i]
	x.used, x.by, x.after = false, by, after
	g.idle += x.n
	g.freed = true
	g.of.pool.unuse(x.n)
}

// settle forgets the work that is done, and joins spans that are free. It asks the
// device, or takes only what the program has waited for.
func (a *arena) settle(call string, ask bool) error {
	var busy map[*Stream]uint64 // by stream: a point that is not reached
	if ask {
		busy = map[*Stream]uint64{}
	}
	var failed error
	var last *Stream // that was asked for what is known of it
	var known uint64
	done := func(p point) bool {
		if failed != nil {
			return false
		}
		if p.s != last {
			last, known = p.s, a.c.known(p.s)
		}
		if p.seq <= known {
			return true
		}
		if seq, ok := busy[p.s]; !ask || ok && p.seq >= seq {
			return false
		}
		err := a.c.wait(call, p, 0)
		if err != nil && !errors.Is(err, ErrNotReady) {
			failed = err
		} else if err != nil {
			busy[p.s] = p.seq
		}
		return err == nil
	}
	for _, g := range a.segments {
		if g.freed {
			g.settle(done)
		}
	}
	return failed
}

func (g *segment) settle(done func(point) bool) {
	g.freed = false
	kept := g.spans[:0]
	for _, x := range g.spans {
		if x.after = slices.DeleteFunc(x.after, done); len(x.after) == 0 {
			x.by, x.after = nil, nil
		} else {
			g.freed = true
		}
		if k := len(kept) - 1; k >= 0 && kept[k].free() && x.free() {
			kept[k].n += x.n
			continue
		}
		kept = append(kept, x)
	}
	clear(g.spans[len(kept):])
	g.spans = kept
}

func (x *span) free() bool { return !x.used && len(x.after) == 0 }

// shrink frees segments that are free as a whole until the pool has reserved no
// more than keep bytes.
func (a *arena) shrink(call string, keep uint64) error {
	var failed error
	a.segments = slices.DeleteFunc(a.segments, func(g *segment) bool {
		if failed != nil || len(g.spans) > 1 || !g.spans[0].free() || !a.pool.exceeds(keep) {
			return false
		}
		if err := a.c.memory.freeSegment(g.obj); err != nil {
			failed = a.c.fail(call, err)
			return false
		}
		a.pool.unreserve(g.obj.size)
		return true
	})
	if len(a.segments) == 0 && a.pool.forget(a.c) {
		delete(a.c.memory.arenas, a.pool)
	}
	return failed
}

// reclaim frees all that pools have reserved and do not use, and what has left.
func (c *Context) reclaim(call string) error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	return c.reclaimLocked(call)
}

// reclaimLocked is reclaim with memory.mu held.
func (c *Context) reclaimLocked(call string) error {
	for _, a := range c.memory.arenas {
		if err := errors.Join(a.settle(call, true), a.shrink(call, 0)); err != nil {
			return err
		}
	}
	if err := c.memory.dropSpare(); err != nil {
		return c.fail(call, err)
	}
	return errors.Join(c.letGo(call), c.trimGraphs(call, true))
}

// letGo frees memory that is of no pool and was freed in the order of a stream, up to
// the first that work before it still uses. Memory.mu is held.
func (c *Context) letGo(call string) error {
	m := &c.memory
	for len(m.leaving) > 0 {
		x := m.leaving[0]
		for _, p := range x.after {
			if err := c.wait(call, p, 0); errors.Is(err, ErrNotReady) {
				return nil
			} else if err != nil {
				return err
			}
		}
		m.leaving = m.leaving[1:]
		err := error(nil)
		if x.imported != nil {
			err = m.drop(x.imported)
		} else {
			err = m.vram.free(x.block)
		}
		if err != nil {
			return c.fail(call, err)
		}
	}
	return nil
}

// closePools frees the memory of pools in a context that ends. M.mu is held.
func (m *memory) closePools(report func(error)) {
	for p, a := range m.arenas {
		for _, g := range a.segments {
			report(m.vram.closeObject(g.obj))
			p.unreserve(g.obj.size)
			p.unuse(g.obj.size - g.idle)
		}
		p.mu.Lock()
		delete(p.contexts, a.c)
		p.mu.Unlock()
	}
	clear(m.arenas)
	report(m.dropSpare())
}

// known returns up to where the work of s is known to be done.
func (c *Context) known(s *Stream) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.done
}

// ordered reports whether the next work of s follows all points in any case.
func (c *Context) ordered(s *Stream, points []point) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range points {
		legacy := (s == c.def || p.s == c.def) && !s.nonBlocking && !p.s.nonBlocking
		if p.s != s && !legacy && max(p.s.done, s.seen[p.s], s.pending[p.s]) < p.seq {
			return false
		}
	}
	return true
}

// follow lets the next work of s wait for that which used the spans.
func (c *Context) follow(call string, s *Stream, spans []span) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead {
		return errorf(call, ErrInvalidHandle, "the stream is destroyed")
	}
	for _, x := range spans {
		for _, p := range x.after {
			if p.s != s && p.seq > max(p.s.done, s.seen[p.s]) {
				s.pending[p.s] = max(s.pending[p.s], p.seq)
			}
		}
	}
	return nil
}
