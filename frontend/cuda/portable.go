package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// portable is the pinned memory that contexts have in common: what MemAllocUnified and
// MemAllocManaged make in one context, kernels of all others reach at the same address. Each object is
// imported and mapped by every other context, for as long as it lives.
type portable struct {
	mu       sync.Mutex
	contexts map[*Context]struct{} // that live
	objects  map[*object]*lent
}

// lent is an object that other contexts have, too.
type lent struct {
	by      *Context
	handles map[*Context]uint32 // of it in the others
}

// lender is a File whose granted memory other files of the process can have.
type lender interface {
	PrimeExport(handle uint32) (fd int, err error)
	PrimeImport(fd int) (handle uint32, err error)
}

// join maps in a new context what the others have.
func (p *portable) join(c *Context) error {
	if c.memory.unified == nil {
		return nil
	}
	if _, ok := c.file.(lender); !ok {
		return nil
	}
	c.memory.unified.made = func(o *object) error { return p.add(c, o) }
	c.memory.unified.closed = func(o *object) { p.remove(o) }
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.contexts == nil {
		p.contexts, p.objects = map[*Context]struct{}{}, map[*object]*lent{}
	}
	for o, l := range p.objects {
		if err := l.lend(o, c); err != nil {
			return err
		}
	}
	p.contexts[c] = struct{}{}
	return nil
}

// leave gives back what the others have lent a context, whose file is about to be closed.
func (p *portable) leave(c *Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.contexts, c)
	for _, l := range p.objects {
		if handle, ok := l.handles[c]; ok {
			_ = c.unlessLost("cuCtxDestroy", c.file.GemClose(handle)) // the file's end does as much
			delete(l.handles, c)
		}
	}
}

// add maps an object of a context in all others.
func (p *portable) add(c *Context, o *object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &lent{by: c, handles: map[*Context]uint32{}}
	p.objects[o] = l
	for other := range p.contexts {
		if other == c {
			continue
		}
		if err := l.lend(o, other); err != nil {
			return err // remove comes
		}
	}
	return nil
}

// remove takes an object away from all other contexts. Errors of theirs are told to those who use them.
func (p *portable) remove(o *object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.objects[o]
	if l == nil {
		return
	}
	for c, handle := range l.handles {
		_ = c.unlessLost("cuMemFreeHost", c.file.GemClose(handle))
	}
	delete(p.objects, o)
}

// lend maps an object in a context, unless its window of addresses or its device cannot have it. A lost
// context needs none. P.mu is held.
func (l *lent) lend(o *object, c *Context) error {
	w := c.memory.system.window
	if o.addr < w.base || o.addr+o.size > w.end() || (o.addr|o.size)%w.page != 0 {
		return nil
	}
	const call = "cuMemHostAlloc"
	fd, err := l.by.file.(lender).PrimeExport(o.handle)
	if err != nil {
		return l.by.unlessLost(call, err)
	}
	defer func() { _ = unix.Close(fd) }() // the import keeps the memory
	handle, err := c.imports(fd, o)
	if err == nil {
		l.handles[c] = handle
		return nil
	}
	if errors.Is(err, syscall.EXDEV) { // devices of a virtual machine
		return nil
	}
	if err = c.unlessLost(call, err); err != nil {
		return fmt.Errorf("pinned memory of %d bytes for the device %d, too: %w", o.size, c.dev.ordinal, err)
	}
	return nil
}

// imports makes an object of memory of another context, at the same address.
func (c *Context) imports(fd int, o *object) (handle uint32, err error) {
	if handle, err = c.file.(lender).PrimeImport(fd); err != nil {
		return 0, err
	}
	op := drm.BindOp{Op: drm.BindMap, Handle: handle, Addr: o.addr, Range: o.size}
	if err := c.file.VMBind([]drm.BindOp{op}, true); err != nil {
		return 0, errors.Join(err, c.file.GemClose(handle))
	}
	return handle, nil
}

// settle waits for the work of all other contexts, which may use memory of c, if it has lent any.
func (p *portable) settle(call string, c *Context) {
	var others []*Context
	p.mu.Lock()
	for _, l := range p.objects {
		if l.by == c {
			others = slices.Collect(maps.Keys(p.contexts))
			break
		}
	}
	p.mu.Unlock()
	for _, other := range others {
		if other != c {
			other.settleAll(call)
		}
	}
}

// ReachedBy reports whether kernels of a context reach the memory at its address: those of its own context
// do, and those of other devices' contexts if it has the same address in the program.
func (h *HostMem) ReachedBy(c *Context) bool {
	if h.c == c {
		return true
	}
	h.c.memory.mu.Lock()
	o := h.block.obj
	h.c.memory.mu.Unlock()
	p := &c.dev.driver.portable
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.objects[o]; l != nil {
		_, ok := l.handles[c]
		return ok
	}
	return false
}
