package cuda

import (
	"errors"
	"fmt"

	"pvdrm/drm"
)

// registration is memory of the program's own that a context maps for the device.
type registration struct {
	base, end uint64 // whole pages of the program
	gpu       uint64 // where they lie on the device
	pieces    []hostPiece
	read      bool                  // the device may not write
	others    map[*Context]*HostMem // of the same memory, in other contexts
}

// RegisterHost is cuMemHostRegister of n bytes at an address of the program, which must not be
// registered. Pages that the device shares take the place of those that lie there. Stack is an address
// in the stack of the calling thread. Memory that the program shares with other processes of the guest, a
// file of tmpfs, stays as it is, and all who register it share it with the device.
// ErrNotSupported where the memory is of a kind that cannot be
// replaced; copies from and to it work as from and to other memory of the program.
func (c *Context) RegisterHost(addr, n uint64, read bool, stack uint64) (*HostMem, error) {
	const call = "cuMemHostRegister"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	r := &c.dev.driver.registry
	if r.pages == nil {
		return nil, &Error{call, ErrNotSupported, c.dev.driver.RegistersHost()}
	}
	_, lends := c.file.(lender)
	if _, shares := c.file.(drm.Sharer); !lends || !shares || c.memory.system.window.page != hostPage {
		return nil, errorf(call, ErrNotSupported, "the device has other pages than the program, or its calls are being recorded")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.prune(); err != nil {
		return nil, c.fail(call, err)
	}
	start, end := addr&^(hostPage-1), (addr+n+hostPage-1)&^(hostPage-1)
	pieces, err := r.pieces(c, start, end, stack)
	if err != nil {
		return nil, &Error{call, ErrNotSupported, errors.Join(err, r.closeAll(c, pieces), r.prune())}
	}
	g := &registration{base: start, end: end, pieces: pieces, read: read}
	h, err := c.mapRegistered(call, g, addr, n)
	if err != nil {
		return nil, errors.Join(err, r.closeAll(c, pieces))
	}
	return h, nil
}

func (r *registry) closeAll(c *Context, pieces []hostPiece) (err error) {
	for _, p := range pieces {
		err = errors.Join(err, r.close(c, p))
	}
	return err
}

// mapRegistered maps a registration on the device. Registry.mu is held.
func (c *Context) mapRegistered(call string, g *registration, addr, n uint64) (*HostMem, error) {
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	size := g.end - g.base
	gpu, err := m.system.space.Alloc(size, hostPage)
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("%d bytes of GPU addresses: %w", size, err))
	}
	var ops []drm.BindOp
	for _, p := range g.pieces {
		op := drm.BindOp{Op: drm.BindMap, Handle: p.file.opened[c].handle, Addr: gpu + p.addr - g.base, BOOffset: p.off, Range: p.n}
		if g.read {
			op.Flags = drm.BindReadOnly
		}
		ops = append(ops, op)
	}
	if err := c.file.VMBind(ops, false); err != nil {
		_ = c.unmapRegistered(gpu, size) // which fails where nothing of it is mapped
		return nil, c.fail(call, fmt.Errorf("mapping %d registered bytes: %w", size, err))
	}
	own := *g
	own.gpu, own.others = gpu, map[*Context]*HostMem{}
	h := &HostMem{c: c, addr: DevicePtr(gpu + addr - g.base), at: addr, n: n, registered: &own}
	m.note(uint64(h.addr), n, allocation{host: h})
	m.pinned.insert(addr, n, h)
	return h, nil
}

// unmapRegistered unmaps addresses of the device and gives them back. Memory.mu is held.
func (c *Context) unmapRegistered(gpu, size uint64) error {
	op := drm.BindOp{Op: drm.BindUnmap, Addr: gpu, Range: size}
	if err := c.file.VMBind([]drm.BindOp{op}, false); err != nil {
		return err // the addresses are not used again
	}
	_, err := c.memory.system.space.Free(gpu)
	return err
}

// Registered reports whether RegisterHost made it.
func (h *HostMem) Registered() bool { return h.registered != nil }

// ReadOnly reports whether the device may only read the memory.
func (h *HostMem) ReadOnly() bool { return h.registered != nil && h.registered.read }

// Pages returns where the pages begin that the memory lies in, and how many bytes they have.
func (h *HostMem) Pages() (start, n uint64) {
	if g := h.registered; g != nil {
		return g.base, g.end - g.base
	}
	return h.extent()
}

// In returns registered memory as another context has it, which maps it where it has not yet.
func (h *HostMem) In(c *Context) (*HostMem, error) {
	const call = "cuMemHostGetDevicePointer"
	if h.c == c {
		return h, nil
	}
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	r := &c.dev.driver.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	g := h.registered
	if other := g.others[c]; other != nil {
		return other, nil
	}
	if at, _ := h.extent(); at == 0 {
		return nil, errorf(call, ErrInvalidValue, "the memory is not registered any more")
	}
	if _, lends := c.file.(lender); !lends || c.memory.system.window.page != hostPage {
		return nil, errorf(call, ErrNotSupported, "the device %d has other pages than the program", c.dev.ordinal)
	}
	for i, p := range g.pieces {
		if _, err := p.file.open(c); err != nil {
			return nil, errors.Join(c.fail(call, err), r.closeAll(c, g.pieces[:i]))
		}
	}
	other, err := c.mapRegistered(call, g, h.at, h.n)
	if err != nil {
		return nil, errors.Join(err, r.closeAll(c, g.pieces))
	}
	g.others[c] = other
	return other, errors.Join(r.children())
}

// Unregister is cuMemHostUnregister. It waits for the work of all contexts that have the memory. The
// program has pages of its own again then, with the same contents, where that is possible.
func (h *HostMem) Unregister() error {
	const call = "cuMemHostUnregister"
	c := h.c
	r := &c.dev.driver.registry
	r.settle(call, h)
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.waitIdle(call); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, _ := h.extent(); at == 0 {
		return errorf(call, ErrInvalidValue, "the memory is not registered any more")
	}
	return c.unlessLost(call, r.release(call, h))
}

// settle waits for the work of other contexts that have registered memory, and takes it from them.
func (r *registry) settle(call string, h *HostMem) {
	r.mu.Lock()
	others := h.registered.others
	h.registered.others = map[*Context]*HostMem{}
	r.mu.Unlock()
	for c, other := range others {
		c.settleAll(call)
		r.mu.Lock()
		_ = r.release(call, other) // told to those who use the context
		r.mu.Unlock()
	}
}

// release unmaps registered memory that no work of its context uses. R.mu is held.
func (r *registry) release(call string, h *HostMem) (err error) {
	c, g := h.c, h.registered
	m := &c.memory
	m.mu.Lock()
	if h.at == 0 {
		m.mu.Unlock()
		return nil
	}
	m.byAddr.remove(uint64(h.addr))
	m.pinned.remove(h.at)
	h.at, h.n = 0, 0
	err = c.unlessLost(call, c.unmapRegistered(g.gpu, g.end-g.base))
	m.mu.Unlock()
	return errors.Join(err, r.closeAll(c, g.pieces))
}

// registrations returns what a context has registered, or has of other contexts' registrations.
func (c *Context) registrations() (all []*HostMem) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for _, e := range c.memory.pinned.list {
		if e.value.registered != nil {
			all = append(all, e.value)
		}
	}
	return all
}

// leaveOthers takes what a context has registered from other contexts, before it ends.
func (r *registry) leaveOthers(call string, c *Context) {
	for _, h := range c.registrations() {
		r.settle(call, h)
	}
}

// leave ends all registrations of a context whose work is done.
func (r *registry) leave(call string, c *Context) (err error) {
	for _, h := range c.registrations() {
		r.mu.Lock()
		err = errors.Join(err, r.release(call, h))
		r.mu.Unlock()
	}
	return err
}
