package nvidia

import (
	gocontext "context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// A context whose VRAM its keeper keeps (store) does not end with its worker, if nothing else that it
// needs lies in the worker's CUDA context alone:
//
//   - commands that have ended stay so: each has a fence of its own, which tells the last of them;
//   - the first one behind them, which may have run in part, may begin again (ptx.Effects);
//   - the variables of modules, and the heap of kernels, lie in memory of the driver. A context that has
//     such is not lasting.
//
// So such a context can be revoked, and another worker of the pool takes over: with the same pages at
// the same addresses, and the same modules.

// keepLimit is how long the keeper may take over an order about pages.
const keepLimit = 5 * time.Second

// transient notes that something of the context would be lost with its worker.
func (c *context) transient(why string) { c.passing.CompareAndSwap(nil, &why) }

// lasts returns why work of the context that is no task would be lost with its worker; nil if it
// would not. c.mu or c.gen is held.
func (c *context) lasts() error {
	switch {
	case !c.dev.config.Replays:
		return fmt.Errorf("%w: VRAM ends with the worker that made it; the device was opened so", gpu.ErrUnsupported)
	case c.worker.unstoppable != nil:
		return fmt.Errorf("%w: %w", gpu.ErrUnsupported, c.worker.unstoppable)
	}
	if why := c.passing.Load(); why != nil {
		return fmt.Errorf("%w: %s", gpu.ErrUnsupported, *why)
	}
	return nil
}

// allocate has the worker allocate a memory, and the keeper keep it. c.mu is held.
func (c *context) allocate(m *memory) error {
	q := &request{Op: opAllocate, ID: m.id, Size: m.size}
	if !c.dev.config.Replays || c.worker.unstoppable != nil {
		m.touched = make([]bool, m.size/vramPage)
		before := c.dev.keeper.ledger.made(c.worker)
		err := c.do(q, nil, nil)
		// Of several pages that are one object the numbers are not known (makeKnown), even if the driver made others besides.
		m.first, m.known = before, len(m.touched) == 1 && c.dev.keeper.ledger.made(c.worker)-before == 1
		return err
	}
	q.Single = true
	p, name := c.worker, c.dev.names.Add(1)
	begun := p.stop.orderOf(stopKeep, name, keepLimit)
	err := c.do(q, nil, nil)
	if begun == nil {
		begun = p.stop.orderOf(stopKept, m.size/vramPage, keepLimit)
	}
	switch {
	case err != nil:
	case begun != nil || c.worker != p:
		c.transient(fmt.Sprintf("%d bytes of VRAM are not kept: %v", m.size, begun))
	default:
		m.kept, m.used = name, make([]bool, m.size/vramPage)
	}
	return err
}

// unkeep has the keeper let go of a memory that the worker has freed. c.mu is held.
func (m *memory) unkeep() {
	if m.kept != 0 && m.ctx.Err() == nil {
		_ = m.ctx.worker.stop.orderOf(stopLeave, m.kept, keepLimit) // it has ended, and the pages with it
	}
}

// forget has the keeper let go of all that it keeps of a worker, which is to be killed.
func (l *stopLine) forget() {
	if l.mu.TryLock() { // else the keeper does so later
		l.mu.Unlock()
		_ = l.order(stopForget, time.Second) // likewise
	}
}

// reallocate makes a memory in a new worker: with what was kept, or as new. c.mu and gen are held.
func (m *memory) reallocate() error {
	p := m.ctx.worker
	q := &request{Op: opAllocate, ID: m.id, Size: m.size, Cleared: m.used}
	if m.kept == 0 {
		return p.do(q, nil, &reply{})
	}
	q.Single = true
	if err := p.stop.orderOf(stopGive, m.kept, keepLimit); err != nil {
		return err
	}
	if err := p.do(q, nil, &reply{}); err != nil {
		return err
	}
	return p.stop.orderOf(stopKept, m.size/vramPage, keepLimit)
}

// isUsed notes that pages of a memory were mapped, and so cleared. c.mu is held.
func (m *memory) isUsed(off, n uint64) {
	pages := m.touched
	if m.kept != 0 {
		pages = m.used
	}
	for i := off / vramPage; i < min((off+n)/vramPage, uint64(len(pages))); i++ {
		pages[i] = true
	}
}

// readEffects reads what kernels of a module do to memory. c.mu is not held.
func (m *module) readEffects(ctx gocontext.Context, file string) {
	if !m.ctx.dev.config.Replays {
		return
	}
	parsed, err := ptx.LoadWithin(ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(m.source)))), file, m.source)
	if err != nil {
		return // the driver knows more instructions: no kernel may begin again
	}
	m.effects = map[string]*ptx.Effects{}
	for _, d := range parsed.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Entry && f.Defined {
			m.effects[f.Name] = parsed.Effects(f)
		}
	}
}

// enlist makes a module one of its context's, and notes what of it lies in memory of the driver. c.mu
// is held.
func (m *module) enlist(parsed *ptx.Module) {
	m.ctx.modules[m] = struct{}{}
	for _, v := range m.vars {
		if v.Size != 0 {
			m.ctx.transient("it has modules with variables, which lie in memory of the driver")
		}
	}
	for _, d := range parsed.Directives {
		f, ok := d.(*ptx.Func)
		if ok && !f.Entry && !f.Defined && f.Def == nil && f.Name != "vprintf" && f.Name != "__assertfail" {
			m.ctx.transient(fmt.Sprintf("its kernels call %s of the driver", ptx.Clip(f.Name)))
		}
	}
}

// mayBeginAgain returns why a command that has run in part may not begin again; nil if it may.
func (c *context) mayBeginAgain(f *flying) error {
	if f.call != nil {
		return fmt.Errorf("%s: %w: it has state in the worker", f.call.name(), ptx.ErrNoRestart)
	}
	if f.graph != nil {
		return fmt.Errorf("a graph with kernel %s: %w: a kernel of it may read what one behind it wrote", f.graph.kernel, ptx.ErrNoRestart)
	}
	if f.fn == nil || len(f.entries) == 0 {
		return nil // it writes the same once more
	}
	name := f.fn.attrs.Name
	e := f.fn.mod.effects[name]
	if e == nil {
		return fmt.Errorf("kernel %s: %w: its module has instructions that only the driver knows", name, ptx.ErrNoRestart)
	}
	save, err := e.Restart(func(p ptx.Pointer) (uint64, bool) { return c.objectOf(f, p) })
	switch {
	case err != nil:
		return fmt.Errorf("kernel %s: %w", name, err)
	case len(save) > 0:
		return fmt.Errorf("kernel %s: %w: it changes what it reads", name, ptx.ErrNoRestart)
	}
	return nil
}

// objectOf returns the number of the memory that an address lies in which a kernel has.
func (c *context) objectOf(f *flying, p ptx.Pointer) (uint64, bool) {
	if p.Var != nil {
		return math.MaxUint64, true
	}
	at := f.fn.attrs.Params[p.Param].Offset + int(p.Offset)
	if at+8 > len(f.params) {
		return 0, false
	}
	return c.space.memoryAt(binary.LittleEndian.Uint64(f.params[at:]))
}

// memoryAt returns the number of the memory at an address.
func (s *space) memoryAt(va uint64) (id uint64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.from(va)
	if i == len(s.maps) || s.maps[i].va > va {
		return 0, false
	}
	if s.maps[i].mem == nil {
		return math.MaxUint64, true
	}
	return s.maps[i].mem.id, true
}

// head returns the command of a channel that may have run in part, of those up to a fence of which all
// have ended; nil if there is none. c.run is held.
func (c *channel) head(fence uint32) *flying {
	for _, f := range c.flight.flying {
		if !reached(fence, f.number) {
			return f
		}
	}
	return nil
}
