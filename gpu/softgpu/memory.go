package softgpu

import (
	"sort"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// memory is VRAM or system memory of one context. It implements gpu.Memory.
type memory struct {
	ctx  *context
	id   uint64 // order of creation
	size uint64 // bytes

	// One of the two.
	extents []extent // of VRAM, in order
	pages   *pages   // the extents, once they are shared; nil: they are this memory's alone
	object  *hw.BusObject

	ends   []uint64 // ends[i] is the offset at which extents[i] ends
	closed bool     // guarded by ctx.mu
}

func newVRAMMemory(c *context, ext []extent) *memory {
	m := &memory{ctx: c, extents: ext, ends: make([]uint64, len(ext))}
	for i, e := range ext {
		m.size += e.size
		m.ends[i] = m.size
	}
	return m
}

// Size implements gpu.Memory.
func (m *memory) Size() uint64 { return m.size }

// Close implements gpu.Memory.
func (m *memory) Close() error {
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	m.ctx.release(m)
	return nil
}

// window returns where the memory may be mapped.
func (m *memory) window() gpu.Window {
	if m.object != nil {
		return m.ctx.dev.props.System
	}
	return m.ctx.dev.props.VRAM
}

// place returns where offset off lies, and how many bytes follow it there.
func (m *memory) place(off uint64) (t hw.Target, addr, run uint64) {
	if m.object != nil {
		return hw.TargetSystem, m.object.Base + off, m.size - off
	}
	i := sort.Search(len(m.ends), func(i int) bool { return m.ends[i] > off })
	e, left := m.extents[i], m.ends[i]-off
	return hw.TargetVRAM, e.addr + e.size - left, left
}

// write stores bytes at an offset. Preconditions: the memory is VRAM, large enough, and
// no engine uses it yet.
func (m *memory) write(off uint64, b []byte) {
	for len(b) > 0 {
		_, addr, run := m.place(off)
		n := copy(m.ctx.dev.vram.Bytes(addr, run), b)
		b, off = b[n:], off+uint64(n)
	}
}
