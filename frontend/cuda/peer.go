package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"pvdrm/drm"
)

// Peers: contexts of one device reach memory of contexts of another, at the addresses that it has there. No two contexts of
// a process use the same addresses, so the owner's objects are opened by their keys and mapped in the other one, too.

// peering is which contexts reach memory of which others. Its lock may be taken with memory.mu of one context held; only
// calls of files are made under it.
type peering struct {
	mu      sync.Mutex
	enabled map[*Context][]*Context                     // by owner: those that reach all that it has and gets
	mapped  map[*Context]map[*Context]ranges[*borrowed] // by reader and owner
}

// borrowed is an object of a context, as another one has it.
type borrowed struct{ handle uint32 }

// CanAccessPeer reports whether contexts of the device may reach memory of another one's.
func (dev *Device) CanAccessPeer(other *Device) bool {
	return dev != other && other.SharesMapped() != 0 && dev.params[drm.ParamPeers]>>other.place&1 != 0
}

// Errors of peer access.
var (
	ErrPeerAccessAlreadyEnabled = Result(704)
	ErrPeerAccessNotEnabled     = Result(705)
	ErrPeerAccessUnsupported    = Result(217)
)

// EnablePeer is cuCtxEnablePeerAccess: the context reaches what another one has allocated and will allocate.
func (c *Context) EnablePeer(owner *Context) error {
	const call = "cuCtxEnablePeerAccess"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if !c.dev.CanAccessPeer(owner.dev) {
		return errorf(call, ErrPeerAccessUnsupported, "device %d does not reach memory of device %d; copies between them do", c.dev.ordinal, owner.dev.ordinal)
	}
	m := &owner.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &c.dev.driver.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.enabled[owner], c) {
		return errorf(call, ErrPeerAccessAlreadyEnabled, "the context reaches that one's memory already")
	}
	for o := range m.vram.live {
		if err := p.open(c, owner, o); err != nil {
			return c.fail(call, err)
		}
	}
	if p.enabled == nil {
		p.enabled = map[*Context][]*Context{}
	}
	p.enabled[owner] = append(p.enabled[owner], c)
	return nil
}

// DisablePeer is cuCtxDisablePeerAccess. It waits for the work of the context.
func (c *Context) DisablePeer(owner *Context) error {
	const call = "cuCtxDisablePeerAccess"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.waitIdle(call); err != nil {
		return err
	}
	p := &c.dev.driver.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.enabled[owner], c) {
		return errorf(call, ErrPeerAccessNotEnabled, "the context was not given access to that one's memory")
	}
	p.disable(c, owner)
	if err := p.closeAll(c, owner); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// Reach has the context reach the allocation of another one in which [at, at+n) lies, if it can.
func (c *Context) Reach(owner *Context, at DevicePtr, n uint64) bool {
	if !c.dev.CanAccessPeer(owner.dev) || c.enter("") != nil {
		return false
	}
	defer c.life.RUnlock()
	m := &owner.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byAddr.find(uint64(at), n)
	if !ok || e.value.vram == nil && e.value.pooled == nil && e.value.graph == nil {
		return false
	}
	p := &c.dev.driver.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for o := range m.vram.live {
		if uint64(at)-o.addr < o.size {
			return p.open(c, owner, o) == nil
		}
	}
	return false
}

// reaches reports whether a range lies in memory that the context has of another one.
func (c *Context) reaches(at, n uint64) bool {
	p := &c.dev.driver.peers
	p.mu.Lock()
	var owner *Context
	for x, list := range p.mapped[c] {
		if _, ok := list.find(at, n); ok {
			owner = x
		}
	}
	p.mu.Unlock()
	if owner == nil {
		return false
	}
	owner.memory.mu.Lock()
	defer owner.memory.mu.Unlock()
	return owner.memory.holds(at, n)
}

// open maps an object of another context, unless it is. P.mu is held.
func (p *peering) open(c, owner *Context, o *object) error {
	list := p.mapped[c][owner]
	if _, ok := list.find(o.addr, o.size); ok {
		return nil
	}
	from, err := owner.sharer("")
	if err != nil {
		return err
	}
	to, ok := c.file.(drm.Sharer)
	if !ok {
		return syscall.EOPNOTSUPP
	}
	if o.key == (drm.Key{}) {
		if o.key, err = from.GemShare(o.handle); err != nil {
			return fmt.Errorf("sharing %d bytes at 0x%x with device %d: %w", o.size, o.addr, c.dev.ordinal, err)
		}
		c.dev.driver.keys.add(o.key)
	}
	handle, _, err := to.GemOpen(o.key)
	if err != nil {
		return fmt.Errorf("opening %d bytes at 0x%x of device %d: %w", o.size, o.addr, owner.dev.ordinal, err)
	}
	op := drm.BindOp{Op: drm.BindMap, Handle: handle, Addr: o.addr, Range: o.size}
	if err := c.file.VMBind([]drm.BindOp{op}, true); err != nil {
		return errors.Join(err, c.file.GemClose(handle))
	}
	if p.mapped == nil {
		p.mapped = map[*Context]map[*Context]ranges[*borrowed]{}
	}
	if p.mapped[c] == nil {
		p.mapped[c] = map[*Context]ranges[*borrowed]{}
	}
	list.insert(o.addr, o.size, &borrowed{handle: handle})
	p.mapped[c][owner] = list
	return nil
}

// made has those that reach a context's memory reach a new object, too. Memory.mu of the owner is held.
func (p *peering) made(owner *Context, o *object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.enabled[owner] {
		if c.lost.Load() != nil {
			continue
		}
		if err := p.open(c, owner, o); err != nil {
			return err
		}
	}
	return nil
}

// gone takes an object from those that reach it. Memory.mu of the owner is held.
func (p *peering) gone(owner *Context, o *object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, of := range p.mapped {
		list := of[owner]
		if e, ok := list.find(o.addr, o.size); ok {
			list.remove(o.addr)
			of[owner] = list
			_ = c.unlessLost("cuMemFree", c.file.GemClose(e.value.handle)) // the owner has no part in it
		}
	}
}

// leave forgets a context that ends.
func (p *peering) leave(c *Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner := range p.mapped[c] {
		err = errors.Join(err, p.closeAll(c, owner))
	}
	delete(p.mapped, c)
	delete(p.enabled, c)
	for owner := range p.enabled {
		p.disable(c, owner)
	}
	return err
}

func (p *peering) disable(c, owner *Context) {
	p.enabled[owner] = slices.DeleteFunc(p.enabled[owner], func(x *Context) bool { return x == c })
}

// closeAll gives back what a context has of another one. P.mu is held.
func (p *peering) closeAll(c, owner *Context) (err error) {
	for _, e := range p.mapped[c][owner].list {
		err = errors.Join(err, c.unlessLost("", c.file.GemClose(e.value.handle)))
	}
	delete(p.mapped[c], owner)
	return err
}
