package cuda

import (
	"errors"
	"fmt"
	"syscall"

	"pvdrm/drm"
)

// MemCreateShareable is cuMemCreate of memory that other processes of the guest may have.
func (c *Context) MemCreateShareable(n uint64) (*Physical, error) {
	const call = "cuMemCreate"
	if _, err := c.sharer(call); err != nil {
		return nil, err
	}
	p, err := c.MemCreate(n)
	if err == nil {
		p.shareable = true
	}
	return p, err
}

// Shareable reports whether Share gives a key.
func (p *Physical) Shareable() bool { return p.shareable }

// Share is cuMemExportToShareableHandle: the key by which other processes import the memory. It
// names the memory as long as a process has it, and does not hold it by itself.
func (p *Physical) Share() (drm.Key, error) {
	const call = "cuMemExportToShareableHandle"
	c := p.c
	if err := c.enter(call); err != nil {
		return drm.Key{}, err
	}
	defer c.life.RUnlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if p.released || !p.shareable {
		return drm.Key{}, errorf(call, ErrInvalidValue, "the memory is released, or was not created for other processes")
	}
	by, err := c.sharer(call)
	if err != nil {
		return drm.Key{}, err
	}
	if p.key == (drm.Key{}) {
		if p.key, err = by.GemShare(p.handle); err != nil {
			return drm.Key{}, c.fail(call, err)
		}
	}
	return p.key, nil
}

// MemImport is cuMemImportFromShareableHandle: memory of a process of the guest, this one or
// another, which lives until all that have it have released it.
func (c *Context) MemImport(key drm.Key) (*Physical, error) {
	const call = "cuMemImportFromShareableHandle"
	by, err := c.sharer(call)
	if err != nil {
		return nil, err
	}
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	handle, size, err := by.GemOpen(key)
	if errors.Is(err, syscall.ENOENT) {
		return nil, &Error{call, ErrInvalidValue, fmt.Errorf("no process of the guest has the memory any more: %w", err)}
	} else if err != nil {
		return nil, c.fail(call, err)
	}
	if err := c.whole(call, size); err != nil {
		return nil, errors.Join(err, m.vram.file.GemClose(handle))
	}
	return m.keep(&Physical{c: c, handle: handle, n: size, shareable: true, key: key}), nil
}

// keep notes memory that the context has. M.mu is held.
func (m *memory) keep(p *Physical) *Physical {
	if m.physical == nil {
		m.physical = map[*Physical]struct{}{}
	}
	m.physical[p] = struct{}{}
	return p
}
