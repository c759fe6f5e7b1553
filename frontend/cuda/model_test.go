package cuda

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

// modelled is a context and its model: byte slices by address, in which every operation
// takes effect at once.
type modelled struct {
	*Context
	stream *Stream
	memory map[DevicePtr][]byte
	pinned map[DevicePtr]*HostMem
	seed   uint64
}

// pick draws a part of some memory.
func (m *modelled) pick(t *rapid.T, name string) (p DevicePtr, off, n uint64) {
	if len(m.memory) == 0 {
		t.Skip("no memory")
	}
	p = rapid.SampledFrom(slices.Sorted(maps.Keys(m.memory))).Draw(t, name)
	size := uint64(len(m.memory[p]))
	off = rapid.Uint64Range(0, size).Draw(t, name+" offset")
	return p, off, rapid.Uint64Range(0, size-off).Draw(t, name+" size")
}

// add adds memory of the context to the model.
func (m *modelled) add(t *rapid.T, p DevicePtr, n uint64) {
	for a, b := range m.memory {
		require.False(t, p < a+DevicePtr(len(b)) && a < p+DevicePtr(n), "0x%x and 0x%x overlap", p, a)
	}
	require.NoError(t, m.MemsetD8(p, 0, n)) // what it holds is undefined
	m.memory[p] = make([]byte, n)
}

func (m *modelled) noise(n uint64) []byte {
	m.seed++
	return noise(int(n), m.seed)
}

var allocations = rapid.OneOf(rapid.Uint64Range(1, 600), rapid.Uint64Range(1, 100_000), rapid.Uint64Range(1, 3<<20))

func (m *modelled) alloc(t *rapid.T) {
	n := allocations.Draw(t, "n")
	p, err := m.MemAlloc(n)
	if err != nil {
		isResult(t, ErrOutOfMemory, err)
		return
	}
	require.Zero(t, p%vramAlign)
	m.add(t, p, n)
}

func (m *modelled) allocHost(t *rapid.T) {
	n := allocations.Draw(t, "n")
	h := mustHost(t, m.Context, n)
	m.pinned[h.DevicePtr()] = h
	m.add(t, h.DevicePtr(), n)
}

func (m *modelled) free(t *rapid.T) {
	p, off, _ := m.pick(t, "p")
	free := func() error { return m.MemFree(p) }
	if h := m.pinned[p]; h != nil {
		free = h.Free
	} else if m.memory[p+DevicePtr(off)] == nil { // right behind may be the next
		isResult(t, ErrInvalidValue, m.MemFree(p+DevicePtr(off)))
	}
	require.NoError(t, free())
	isResult(t, ErrInvalidValue, free())
	delete(m.memory, p)
	delete(m.pinned, p)
}

func (m *modelled) write(t *rapid.T) {
	p, off, n := m.pick(t, "p")
	b := m.noise(n)
	require.NoError(t, m.MemcpyHtoD(p+DevicePtr(off), b))
	copy(m.memory[p][off:], b)
	clear(b)
}

func (m *modelled) writePastTheEnd(t *rapid.T) {
	p, off, n := m.pick(t, "p")
	if off > 0 && m.memory[p+DevicePtr(off)] != nil {
		t.Skip("it is the beginning of the next")
	}
	b := make([]byte, uint64(len(m.memory[p]))-off+1+n%7)
	isResult(t, ErrInvalidValue, m.MemcpyHtoD(p+DevicePtr(off), b))
}

func (m *modelled) writePinned(t *rapid.T) {
	p, off, n := m.pick(t, "p")
	h := m.pinned[p]
	if h == nil {
		t.Skip("not pinned")
	}
	require.NoError(t, m.Synchronize())
	require.Equal(t, m.memory[p][off:off+n], h.Bytes()[off:off+n])
	b := m.noise(n)
	copy(h.Bytes()[off:], b)
	copy(m.memory[p][off:], b)
}

func (m *modelled) read(t *rapid.T) {
	p, off, n := m.pick(t, "p")
	require.True(t, bytes.Equal(m.memory[p][off:off+n], readBack(t, m.Context, p+DevicePtr(off), int(n))))
}

func (m *modelled) readAll(t *rapid.T) {
	for p, want := range m.memory {
		require.True(t, bytes.Equal(want, readBack(t, m.Context, p, len(want))), "0x%x", p)
	}
}

func (m *modelled) copy(t *rapid.T) {
	p, poff, n := m.pick(t, "from")
	q, qoff, most := m.pick(t, "to")
	n = min(n, most)
	stream := rapid.SampledFrom([]*Stream{nil, m.stream}).Draw(t, "stream")
	err := m.MemcpyDtoDAsync(q+DevicePtr(qoff), p+DevicePtr(poff), n, stream)
	if p == q && n > 0 && poff < qoff+n && qoff < poff+n {
		isResult(t, ErrInvalidValue, err)
		return
	}
	require.NoError(t, err)
	copy(m.memory[q][qoff:qoff+n], m.memory[p][poff:])
}

func (m *modelled) memset(t *rapid.T) {
	p, off, n := m.pick(t, "p")
	v := rapid.Uint32().Draw(t, "v")
	off, n = off&^3, n/4
	stream := rapid.SampledFrom([]*Stream{nil, m.stream}).Draw(t, "stream")
	require.NoError(t, m.MemsetD32Async(p+DevicePtr(off), v, n, stream))
	for i := range n {
		copy(m.memory[p][off+4*i:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
}

// A context does what its model does.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := cudatest.NewGPU(t)
		g.Lazy = rapid.Bool().Draw(rt, "lazy")
		g.Params[drm.ParamVRAMPage] = rapid.SampledFrom([]uint64{4096, 2 << 20}).Draw(rt, "page")
		c, err := newDevice(t, g).CreateContext()
		require.NoError(rt, err)
		m := &modelled{Context: c, stream: mustStream(rt, c), memory: map[DevicePtr][]byte{}, pinned: map[DevicePtr]*HostMem{}}
		rt.Repeat(map[string]func(*rapid.T){
			"alloc":              m.alloc,
			"alloc host":         m.allocHost,
			"free":               m.free,
			"write":              m.write,
			"write past the end": m.writePastTheEnd,
			"write pinned":       m.writePinned,
			"read":               m.read,
			"copy":               m.copy,
			"memset":             m.memset,
			"synchronize":        func(t *rapid.T) { require.NoError(t, c.Synchronize()) },
			"check all":          m.readAll,
		})
		require.NoError(rt, c.Destroy())
		require.Empty(rt, g.Violations)
	})
}
