package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"pvdrm/drm"
)

// virtual is the virtual memory management of a device. Contexts have address spaces of their own,
// so what is mapped is mapped in each of them, by an object that each opens by the memory's key. The
// memory itself is of a DRM file without a context, and so outlives all of them. Where files share
// nothing, memory is of the one context that it was made in, and ends with it.
type virtual struct {
	mu       sync.Mutex
	contexts []*Context // that live
	space    *addresses // nil before the first use
	reserved ranges[struct{}]
	mappings ranges[*mapping] // inside of them
	memory   map[*Physical]struct{}
	file     drm.File // of the memory; nil while there is none
}

// Physical is device memory of cuMemCreate, which has no address of its own.
type Physical struct {
	dev    *Device
	only   *Context // whose memory it is, where files share nothing; nil otherwise
	handle uint32   // in the file of the memory, or of the context
	n      uint64
	key    drm.Key // by which contexts and other processes have it; zero where files share nothing

	shareable bool // other processes may have it

	// Handle is what the caller knows the memory by; it is of no use here.
	Handle uint64

	refs    int                 // of the program; guarded by virtual.mu, like all below
	mapped  int                 // how often
	handles map[*Context]uint32 // of it in contexts; of no use where only is set
}

// mapping is memory at a range of reserved addresses.
type mapping struct {
	mem    *Physical
	access Access
	id     uint64 // as in allocation
}

// Only returns the context whose memory it is, and without which it ends; nil if it is no context's.
func (p *Physical) Only() *Context { return p.only }

// Device returns the device that has the memory.
func (p *Physical) Device() *Device { return p.dev }

// Shareable reports whether Share gives a key.
func (p *Physical) Shareable() bool { return p.shareable }

func errUnshared(call string) error {
	return errorf(call, ErrNotSupported, "the device shares nothing between processes, or its calls are being recorded")
}

// begin prepares the first use. V.mu is held.
func (v *virtual) begin(dev *Device) (err error) {
	if v.space != nil {
		return nil
	}
	w := window{base: dev.params[drm.ParamVRAMBase], size: dev.params[drm.ParamVRAMSize], page: dev.params[drm.ParamVRAMPage]}
	if err := w.check(); err != nil {
		return err
	}
	if v.memory == nil {
		v.memory = map[*Physical]struct{}{}
	}
	v.space, err = dev.vram.part(w)
	return err
}

// shares reports whether memory is no context's. C may be nil.
func (v *virtual) shares(dev *Device, c *Context) bool {
	if c != nil {
		if _, err := c.sharer(""); err != nil {
			return false
		}
	}
	return dev.Shares() != 0
}

// home returns the file of the memory, or nil if the memory is to be of c. V.mu is held.
func (v *virtual) home(call string, dev *Device, c *Context) (drm.File, error) {
	if err := v.begin(dev); err != nil {
		return nil, &Error{call, ErrUnknown, err}
	}
	shares := v.shares(dev, c)
	if !shares && c == nil {
		return nil, errorf(call, ErrNotSupported, "no context is current, and the device's memory is of contexts only")
	}
	if !shares || v.file != nil {
		return v.file, nil
	}
	f, err := dev.openFile(call)
	if err != nil {
		return nil, err
	}
	if _, ok := f.(drm.Sharer); !ok { // its calls are being recorded
		return nil, errors.Join(errUnshared(call), f.Close())
	}
	v.file = f
	return f, nil
}

// fails makes the error of a call for memory that there is not, and closes the file of the memory if
// there is no other. C may be nil. V.mu is held.
func (v *virtual) fails(call string, c *Context, err error) error {
	if c != nil {
		err = c.fail(call, err)
	}
	var done *Error
	if !errors.As(err, &done) {
		err = &Error{call, resultOf(err), err}
	}
	return errors.Join(err, v.leaveFile())
}

// leaveFile closes the file of the memory when there is no memory. V.mu is held.
func (v *virtual) leaveFile() error {
	for p := range v.memory {
		if p.only == nil {
			return nil
		}
	}
	f := v.file
	if v.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// drop frees memory that nothing holds any more. V.mu is held.
func (v *virtual) drop(call string, p *Physical) error {
	if p.refs > 0 || p.mapped > 0 {
		return nil
	}
	delete(v.memory, p)
	var failed error
	for c, handle := range p.handles {
		failed = errors.Join(failed, c.unlessLost(call, c.file.GemClose(handle)))
	}
	p.handles = nil
	if p.only != nil {
		return errors.Join(failed, p.only.unlessLost(call, p.only.file.GemClose(p.handle)))
	}
	if err := v.file.GemClose(p.handle); err != nil {
		failed = errors.Join(failed, &Error{call, resultOf(err), fmt.Errorf("freeing %d bytes of device memory: %w", p.n, err)})
	}
	return errors.Join(failed, v.leaveFile())
}

// setAccess changes one mapping, in all contexts or in none. V.mu is held.
func (v *virtual) setAccess(call string, e entry[*mapping], access Access) error {
	x := e.value
	if x.access == access {
		return nil
	}
	for i, c := range v.contexts {
		err := c.unlessLost(call, c.bind(e, x.access, access))
		if err == nil {
			continue
		}
		for _, done := range v.contexts[:i] {
			err = errors.Join(err, done.unlessLost(call, done.bind(e, access, x.access)))
		}
		return err
	}
	x.access = access
	return nil
}

// join maps in a new context what is mapped. Leave must be called, also after an error.
func (v *virtual) join(c *Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.mappings.list {
		if err := c.bind(e, AccessNone, e.value.access); err != nil {
			return err
		}
	}
	v.contexts = append(v.contexts, c)
	return nil
}

// leave forgets a context that ends, and the memory that is its own. It returns the handles that are
// to be closed with it. Calls after the first are for memory that was made since.
func (v *virtual) leave(c *Context) (handles []uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.contexts = slices.DeleteFunc(v.contexts, func(x *Context) bool { return x == c })
	v.mappings.list = slices.DeleteFunc(v.mappings.list, func(e entry[*mapping]) bool { return e.value.mem.only == c })
	for p := range v.memory {
		if handle, ok := p.handles[c]; ok {
			delete(p.handles, c)
			handles = append(handles, handle)
		}
		if p.only == c {
			p.refs = 0
			delete(v.memory, p)
			handles = append(handles, p.handle)
		}
	}
	return handles
}

// settleAll waits for all work of a context. What failed is told to those who use the context.
func (c *Context) settleAll(call string) {
	if c.enter(call) == nil {
		defer c.life.RUnlock()
		_ = c.waitIdle(call)
	}
}

// unlessLost returns the error of a call in the context, but none of a context that is lost: it has
// no use for memory any more, and other contexts have.
func (c *Context) unlessLost(call string, err error) error {
	if err == nil || c.lost.Load() != nil {
		return nil
	}
	err = c.fail(call, err)
	if c.lost.Load() != nil {
		return nil
	}
	return err
}

// bind changes what the context may do with a mapping. Virtual.mu is held.
func (c *Context) bind(e entry[*mapping], from, access Access) error {
	p := e.value.mem
	if from == access || p.only != nil && p.only != c {
		return nil
	}
	var ops []drm.BindOp
	if from != AccessNone {
		ops = append(ops, drm.BindOp{Op: drm.BindUnmap, Addr: e.start, Range: e.n})
	}
	if access != AccessNone {
		handle, err := p.in(c)
		if err != nil {
			return err
		}
		op := drm.BindOp{Op: drm.BindMap, Handle: handle, Addr: e.start, Range: e.n}
		if access == AccessRead {
			op.Flags = drm.BindReadOnly
		}
		ops = append(ops, op)
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := c.file.VMBind(ops, true); err != nil {
		return fmt.Errorf("mapping %d bytes at 0x%x: %w", e.n, e.start, err)
	}
	switch {
	case from == AccessNone:
		m.byAddr.insert(e.start, e.n, allocation{id: e.value.id, mapped: true})
	case access == AccessNone:
		m.byAddr.remove(e.start)
	}
	return nil
}

// in returns the handle of the memory in a context. Virtual.mu is held.
func (p *Physical) in(c *Context) (uint32, error) {
	if p.only != nil {
		return p.handle, nil
	}
	if handle, ok := p.handles[c]; ok {
		return handle, nil
	}
	by, err := c.sharer("cuMemSetAccess")
	if err != nil {
		return 0, err
	}
	handle, _, err := by.GemOpen(p.key)
	if err != nil {
		return 0, err
	}
	if p.handles == nil {
		p.handles = map[*Context]uint32{}
	}
	p.handles[c] = handle
	return handle, nil
}
