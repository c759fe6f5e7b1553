package softgpu

import (
	"fmt"
	"sync"

	"pvdrm/gpu"
)

// pages are VRAM of several memories.
type pages struct {
	vram    *vram
	extents []extent
	size    uint64

	mu      sync.Mutex // nothing but frames.mu is locked under it
	holders int        // memories and shares; the last one frees the extents
}

// take makes one more holder. Preconditions: the caller knows one that does not let go meanwhile.
func (p *pages) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders++
}

// give lets a holder go, by whom no engine reaches the pages any more.
func (p *pages) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders--; p.holders == 0 {
		p.vram.free(p.extents...)
	}
}

// several reports whether the pages have more than one holder.
func (p *pages) several() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holders > 1
}

// share is a holder of pages. It implements gpu.Shared.
type share struct {
	pages *pages

	mu     sync.Mutex // comes before pages.mu
	closed bool
}

// Size implements gpu.Shared.
func (s *share) Size() uint64 { return s.pages.size }

// Close implements gpu.Shared.
func (s *share) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.pages.give()
	}
}

// Share implements gpu.Sharer.
func (c *context) Share(mem gpu.Memory) (gpu.Shared, error) {
	s, err := c.share(mem)
	if err != nil {
		return nil, c.wrap("share memory", err)
	}
	return s, nil
}

func (c *context) share(mem gpu.Memory) (*share, error) {
	m, ok := mem.(*memory)
	if !ok || m == nil || m.ctx != c || m.object != nil {
		return nil, fmt.Errorf("%w: it is no VRAM of this context", gpu.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if m.closed {
		return nil, fmt.Errorf("memory %w", gpu.ErrClosed)
	}
	if m.pages == nil {
		m.pages = &pages{vram: c.dev.vram, extents: m.extents, size: m.size, holders: 1}
	}
	m.pages.take()
	return &share{pages: m.pages}, nil
}

// Adopt implements gpu.Sharer.
func (c *context) Adopt(from gpu.Shared) (gpu.Memory, error) {
	m, err := c.adopt(from)
	if err != nil {
		return nil, c.wrap("adopt memory", err)
	}
	return m, nil
}

func (c *context) adopt(from gpu.Shared) (*memory, error) {
	s, ok := from.(*share)
	if !ok || s == nil || s.pages.vram != c.dev.vram {
		return nil, fmt.Errorf("%w: it is not shared by a context of this device", gpu.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("shared memory %w", gpu.ErrClosed)
	}
	s.pages.take()
	m := newVRAMMemory(c, s.pages.extents)
	m.id, m.pages = c.nextID(), s.pages
	c.memories[m] = struct{}{}
	return m, nil
}

// freePages frees the VRAM of a memory, unless others have it too. Preconditions: no translation
// of the context to it is in use.
func (m *memory) freePages() {
	if m.pages != nil {
		m.pages.give()
		return
	}
	m.ctx.dev.vram.free(m.extents...)
}
