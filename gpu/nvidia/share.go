package nvidia

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
)

// common is VRAM that several contexts have, each by a worker of its own. Their keeper holds its pages
// (store), and gives them to a worker in place of pages that libcuda asks for, as it does where a worker
// takes the place of another.
type common struct {
	dev  *device
	name uint64 // of the memory in the keeper
	size uint64

	mu    sync.Mutex // a leaf
	users int        // memories, and shares that are not closed
}

// shared implements gpu.Shared.
type shared struct {
	*common
	closed sync.Once
	over   atomic.Bool
}

var _ gpu.Sharer = (*context)(nil)

// Size implements gpu.Shared.
func (s *common) Size() uint64 { return s.size }

// Close implements gpu.Shared.
func (s *shared) Close() {
	s.closed.Do(func() {
		s.over.Store(true)
		s.leave()
	})
}

// join counts a user more. Preconditions: there is one that does not leave meanwhile.
func (s *common) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

// leave ends one use of the VRAM, and with the last one what it costs.
func (s *common) leave() {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if last {
		s.dev.unshare(s.name)
		s.dev.discharge(s.size)
	}
}

// Share implements gpu.Sharer. Memory of which a page was never mapped is not cleared yet, and not shared.
func (c *context) Share(mem gpu.Memory) (gpu.Shared, error) {
	s, err := c.share(mem)
	if err != nil {
		return nil, c.wrap("share memory", err)
	}
	return s, nil
}

func (c *context) share(mem gpu.Memory) (*shared, error) {
	m, ok := mem.(*memory)
	if !ok || m == nil || m.ctx != c || m.runs != nil || m.foreign {
		return nil, fmt.Errorf("%w: it is no VRAM of this context", gpu.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	switch {
	case m.closed:
		return nil, fmt.Errorf("memory %w", gpu.ErrClosed)
	case m.shared != nil:
		m.shared.join()
		return &shared{common: m.shared}, nil
	case !all(m.touched):
		return nil, fmt.Errorf("%w: memory that was not mapped yet", gpu.ErrUnsupported)
	}
	if err := c.makeKnown(m); err != nil {
		return nil, err
	}
	c.dev.sweep(c)
	line, name := &c.worker.stop, c.dev.names.Add(1)
	if err := line.orderOf(stopHold, name, keepLimit); err != nil {
		return nil, fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
	}
	for i := range m.touched {
		if err := line.orderOf(stopPage, uint64(m.first+uint32(i)), keepLimit); err != nil {
			return nil, fmt.Errorf("%w: page %d: %w", gpu.ErrUnsupported, i, err)
		}
	}
	if err := line.orderOf(stopKept, uint64(len(m.touched)), keepLimit); err != nil {
		return nil, fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
	}
	m.shared = &common{dev: c.dev, name: name, size: m.size, users: 2}
	return &shared{common: m.shared}, nil
}

// makeKnown sees to it that each page of a memory is an object of the worker's whose number is known. C.mu is held.
func (c *context) makeKnown(m *memory) error {
	if m.known {
		return nil
	}
	before := c.dev.keeper.ledger.made(c.worker)
	if err := c.do(&request{Op: opDivide, ID: m.id}, nil, nil); err != nil {
		return err
	}
	m.first, m.known = before, c.dev.keeper.ledger.made(c.worker)-before == uint32(len(m.touched))
	if !m.known {
		return fmt.Errorf("%w: memory of which the keeper does not know all pages", gpu.ErrUnsupported)
	}
	return nil
}

func all(pages []bool) bool {
	for _, p := range pages {
		if !p {
			return false
		}
	}
	return true
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
	s, ok := from.(*shared)
	if !ok || s == nil || s.dev != c.dev {
		return nil, fmt.Errorf("%w: it is not shared by a context of this device", gpu.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if s.over.Load() {
		return nil, fmt.Errorf("shared memory %w", gpu.ErrClosed)
	}
	s.join()
	m := &memory{ctx: c, id: c.id(), size: s.size, shared: s.common}
	if err := c.receive(m, s.name, 0); err != nil {
		s.leave()
		return nil, err
	}
	return m, nil
}

// receive has the worker get pages that a keeper holds for a memory, by their name there: those of a peer, from 1 on, or
// with 0 of the device itself. C.mu is held.
func (c *context) receive(m *memory, name uint64, peer int) error {
	m.touched = make([]bool, m.size/vramPage)
	for i := range m.touched {
		m.touched[i] = true
	}
	line := &c.worker.stop
	err := line.orderOf(stopGive, name|uint64(peer)<<foreignBits, keepLimit)
	if err == nil {
		err = c.do(&request{Op: opAllocate, ID: m.id, Size: m.size, Cleared: m.touched, Single: true, Peer: peer}, nil, nil)
		given := line.orderOf(stopKept, m.size/vramPage, keepLimit)
		if err == nil && given != nil {
			_ = c.do(&request{Op: opRelease, ID: m.id}, nil, nil) // given is what to report
		}
		err = errors.Join(err, given)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
	}
	c.memories[m] = struct{}{}
	return nil
}

// unshare has the keeper let go of what was shared, by the line of any worker that serves; where there is
// none, of the next one.
func (d *device) unshare(name uint64) {
	d.mu.Lock()
	d.stale = append(d.stale, name)
	var living *context
	for c := range d.contexts {
		if c.Err() == nil {
			living = c
			break
		}
	}
	d.mu.Unlock()
	if living != nil {
		d.sweep(living)
	}
}

// sweep has the keeper let go of what is not shared any more.
func (d *device) sweep(by *context) {
	d.mu.Lock()
	names := d.stale
	d.stale = nil
	d.mu.Unlock()
	by.lifeMu.Lock()
	line := &by.worker.stop
	by.lifeMu.Unlock()
	for i, name := range names {
		if line.orderOf(stopDrop, name, keepLimit) != nil {
			d.mu.Lock()
			d.stale = append(d.stale, names[i:]...)
			d.mu.Unlock()
			return
		}
	}
}
