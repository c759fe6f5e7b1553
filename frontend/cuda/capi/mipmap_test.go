package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

// resource is a CUDA_RESOURCE_DESC of an array.
func (p *program) resource(kind, array uint64) uint64 {
	return p.words(append([]uint64{kind, array}, make([]uint64, 16)...)...)
}

// viewOf is a CUDA_RESOURCE_VIEW_DESC.
func (p *program) viewOf(format, width, height, depth uint64, parts ...uint32) uint64 {
	var w [14]uint64
	w[0], w[1], w[2], w[3] = format, width, height, depth
	w[4], w[5] = uint64(parts[0])|uint64(parts[1])<<32, uint64(parts[2])|uint64(parts[3])<<32
	return p.words(w[:]...)
}

// mipSampler is a CUDA_TEXTURE_DESC with a linear filter between levels 0.5 to 2.
func (p *program) mipSampler(flags, anisotropy uint32) uint64 {
	return p.halves(1, 1, 1, 1, flags, anisotropy, 1, 0x3e800000, 0x3f000000, 0x40000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

func TestMipmappedArrays(t *testing.T) {
	p := newProgramInContext(t)
	m := p.word64("cuMipmappedArrayCreate", p.words(20, 7, 3, 1|4<<32, arrayLayered), 3)
	levels := []uint64{}
	for n, extents := range [][]uint64{{20, 7, 3}, {10, 3, 3}, {5, 1, 3}} {
		level := p.word64("cuMipmappedArrayGetLevel", m, uint64(n))
		p.ok("cuArray3DGetDescriptor_v2", p.out, level)
		require.Equal(t, p.bytes(p.words(extents...), 24), p.bytes(p.out, 24))
		require.Equal(t, level, p.word64("cuMipmappedArrayGetLevel", m, uint64(n)))
		p.gives(cuda.ErrInvalidValue, "cuArrayDestroy", level)
		levels = append(levels, level)
	}
	p.gives(cuda.ErrInvalidValue, "cuMipmappedArrayGetLevel", p.out, m, 3)
	p.gives(cuda.ErrInvalidHandle, "cuMipmappedArrayGetLevel", p.out, levels[0], 0)

	// A copy to a level arrives there: the texture and a surface of the level see it.
	from, back := p.words(1, 2, 3), p.words(0, 0)
	p.ok("cuMemcpyHtoA_v2", levels[1], 8, from, 24)
	p.ok("cuMemcpyAtoH_v2", back, levels[1], 16, 16)
	require.Equal(t, []uint64{2, 3}, []uint64{p.word(back), p.word(back + 8)})
	d := p.descriptor(p.word64("cuTexObjectCreate", p.resource(resourceMipmapped, m), p.mipSampler(normalizedCoords|colourSRGB, 16), 0))
	require.True(t, d.LinearMip && d.Aniso && d.SRGB && d.Floats && d.Normalized)
	require.Equal(t, []float32{0.25, 0.5, 2}, []float32{d.Bias, d.MinLevel, d.MaxLevel})
	require.EqualValues(t, 3, d.Levels)
	surface := p.descriptor(p.word64("cuSurfObjectCreate", p.resource(resourceArray, levels[1])))
	require.Equal(t, d.Level(1).Base, surface.Base)
	require.Equal(t, d.Level(1).Slice, surface.Slice)
	p.gives(cuda.ErrInvalidValue, "cuSurfObjectCreate", p.out, p.resource(resourceMipmapped, m))
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, p.resource(resourceMipmapped, m), p.mipSampler(readAsInteger, 0), 0)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, p.resource(resourceMipmapped, m), p.mipSampler(seamlessCubes, 0), 0)

	p.gives(cuda.ErrInvalidHandle, "cuArrayDestroy", m)
	p.ok("cuMipmappedArrayDestroy", m)
	p.gives(cuda.ErrInvalidHandle, "cuMipmappedArrayDestroy", m)
	p.gives(cuda.ErrInvalidHandle, "cuMemcpyAtoH_v2", back, levels[1], 16, 16)
}

func TestShapesOfMipmaps(t *testing.T) {
	p := newProgramInContext(t)
	for _, c := range []struct {
		name                        string
		width, height, depth, flags uint64
		levels                      uint64
		want                        cuda.Result
		has                         uint32
	}{
		{name: "1D", width: 100, levels: 99, has: 7},
		{name: "3D", width: 5, height: 6, depth: 17, levels: 99, has: 5},
		{name: "cubes", width: 8, height: 8, depth: 12, flags: arrayCube | arrayLayered, levels: 2, has: 2},
		{name: "no levels", width: 5, want: cuda.ErrInvalidValue},
		{name: "too wide", width: texture.MaxMipmap + 1, levels: 1, want: cuda.ErrInvalidValue},
		{name: "huge", width: 1 << 62, height: 1 << 62, levels: 1 << 31, want: cuda.ErrInvalidValue},
		{name: "sparse", width: 5, flags: 0x40, levels: 1, want: cuda.ErrNotSupported},
		{name: "deferred", width: 5, flags: 0x80, levels: 1, want: cuda.ErrNotSupported},
	} {
		got := p.call("cuMipmappedArrayCreate", p.out, p.words(c.width, c.height, c.depth, floatOne, c.flags), c.levels)
		require.Equal(t, c.want, got, c.name)
		if got == cuda.Success {
			m := p.word(p.out)
			d := p.descriptor(p.word64("cuTexObjectCreate", p.resource(resourceMipmapped, m), p.mipSampler(0, 0), 0))
			require.Equal(t, c.has, d.Levels, c.name)
			p.ok("cuMipmappedArrayDestroy", m)
		}
	}
}

func TestViewsOfArrays(t *testing.T) {
	p := newProgramInContext(t)
	layers := p.word64("cuArray3DCreate_v2", p.words(16, 8, 5, 1|4<<32, arrayLayered))
	cubes := p.word64("cuArray3DCreate_v2", p.words(8, 8, 18, 1|4<<32, arrayLayered|arrayCube))
	levels := p.word64("cuMipmappedArrayCreate", p.words(16, 8, 5, 1|4<<32, arrayLayered), 4)
	look := func(kind, array, view uint64) texture.Descriptor {
		return p.descriptor(p.word64("cuTexObjectCreate", p.resource(kind, array), p.mipSampler(0, 0), view))
	}
	whole := look(resourceArray, layers, 0)
	d := look(resourceArray, layers, p.viewOf(0, 16, 8, 5, 0, 0, 2, 3))
	require.Equal(t, whole.Base+2*whole.Slice, d.Base)
	require.EqualValues(t, 2, d.Layers)
	d = look(resourceArray, layers, p.viewOf(22, 16, 8, 5, 0, 0, 0, 4))
	require.Equal(t, []any{texture.F32, uint8(1)}, []any{d.Format, d.Channels})
	d = look(resourceArray, cubes, p.viewOf(0, 8, 8, 18, 0, 0, 6, 17))
	require.EqualValues(t, 2, d.Layers)
	whole = look(resourceMipmapped, levels, 0)
	d = look(resourceMipmapped, levels, p.viewOf(0, 16, 8, 5, 1, 2, 3, 4))
	require.Equal(t, []uint32{8, 4, 2, 2, 3, 5}, []uint32{d.Width, d.Height, d.Levels, d.Layers, d.First, d.Total})
	one, other := d.Level(0), whole.Level(1)
	require.Equal(t, other.Base+3*other.Slice, one.Base)

	view := p.viewOf(0, 16, 8, 5, 1, 2, 3, 4)
	tex := p.word64("cuTexObjectCreate", p.resource(resourceMipmapped, levels), p.mipSampler(0, 0), view)
	room := p.mem.Keep(append([]byte{}, p.bytes(p.words(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), viewBytes)...))
	p.ok("cuTexObjectGetResourceViewDesc", room, tex)
	require.Equal(t, p.bytes(view, viewBytes), p.bytes(room, viewBytes))
	plain := p.word64("cuTexObjectCreate", p.resource(resourceArray, layers), p.mipSampler(0, 0), 0)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectGetResourceViewDesc", room, plain)

	memory := p.words(resourceLinear, p.word64("cuMemAlloc_v2", 4096), floatOne, 400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, memory, p.mipSampler(0, 0), view)
	for name, v := range map[string]uint64{
		"other elements":       p.viewOf(3*4+3, 16, 8, 5, 0, 0, 0, 4),
		"other extents":        p.viewOf(0, 8, 8, 5, 0, 0, 0, 4),
		"levels the wrong way": p.viewOf(0, 16, 8, 5, 2, 1, 0, 4),
		"too many levels":      p.viewOf(0, 16, 8, 5, 0, 4, 0, 4),
		"too many layers":      p.viewOf(0, 16, 8, 5, 0, 3, 0, 5),
		"huge layers":          p.viewOf(0, 16, 8, 5, 0, 3, 1, 1<<32-1),
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuTexObjectCreate", p.out, p.resource(resourceMipmapped, levels), p.mipSampler(0, 0), v), name)
	}
	p.gives(cuda.ErrNotSupported, "cuTexObjectCreate", p.out, p.resource(resourceArray, layers), p.mipSampler(0, 0), p.viewOf(25, 16, 8, 5, 0, 0, 0, 4))
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, p.resource(resourceArray, cubes), p.mipSampler(0, 0), p.viewOf(0, 8, 8, 18, 0, 0, 5, 10))
}

// TestArraysInGraphs copies to and from arrays by nodes, explicit and captured.
func TestArraysInGraphs(t *testing.T) {
	p := newGrapher(t)
	a := p.word64("cuArrayCreate_v2", p.words(16, 4, floatOne))
	back := p.words(make([]uint64, 16)...)
	for n := range uint32(16) {
		require.NoError(t, p.mem.Write(p.host+4*uint64(n), binary.LittleEndian.AppendUint32(nil, 100+n)))
	}
	read := func() (list []uint32) {
		for _, w := range []uint64{back, back + 8, back + 16} {
			list = append(list, uint32(p.word(w)), uint32(p.word(w)>>32))
		}
		return list
	}
	p.begin(p.stream, 0)
	p.ok("cuMemcpyHtoAAsync_v2", a, 8, p.host, 16, p.stream)                                                                 // 100 to 103 at column 2
	p.ok("cuMemcpy2DAsync_v2", p.words(0, 0, memoryHost, p.host+16, 0, 0, 8, 4, 1, memoryArray, 0, 0, a, 0, 8, 2), p.stream) // 104, 105; 106, 107 at (1, 1)
	p.ok("cuMemcpyAtoHAsync_v2", back, a, 12, 8, p.stream)                                                                   // 101, 102
	p.ok("cuMemcpy2DAsync_v2", p.words(8, 1, memoryArray, 0, 0, a, 0, 0, 0, memoryHost, back+8, 0, 0, 4, 4, 2), p.stream)    // 105; 107
	g := p.end(p.stream)
	require.EqualValues(t, 4, p.nodes(g))
	require.Zero(t, p.word(back), "nothing has run")
	exec := p.instantiate(g)
	p.ok("cuGraphLaunch", exec, p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, []uint32{101, 102, 105, 107, 0, 0}, read())

	// A node that was made by hand gives back what it was made of, and may change.
	hand := p.word64("cuGraphCreate", 0)
	raw := line(memoryHost, back, memoryArray, a, 16)
	binary.LittleEndian.PutUint64(raw[copy3DSrc.x:], 8)
	node := p.addNode("cuGraphAddMemcpyNode", hand, []uint64{p.mem.Keep(raw), 0})
	room := p.mem.Keep(make([]byte, copy3DBytes))
	p.ok("cuGraphMemcpyNodeGetParams", node, room)
	require.Equal(t, raw, p.bytes(room, copy3DBytes))
	binary.LittleEndian.PutUint64(raw[copy3DDst.host:], back+8)
	p.ok("cuGraphMemcpyNodeSetParams", node, p.mem.Keep(raw))
	p.ok("cuGraphLaunch", p.instantiate(hand), p.stream)
	p.ok("cuStreamSynchronize", p.stream)
	require.Equal(t, []uint32{101, 102, 100, 101, 102, 103}, read())

	for name, change := range map[string][2]uint64{
		"outside of the array": {uint64(copy3DSrc.x), 60},
		"a row too far":        {uint64(copy3DSrc.y), 4},
		"a level":              {24, 1},
		"a level of memory":    {112, 1},
	} {
		bad := append([]byte{}, raw...)
		binary.LittleEndian.PutUint64(bad[change[0]:], change[1])
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuGraphMemcpyNodeSetParams", node, p.mem.Keep(bad)), name)
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemcpy3D_v2", p.mem.Keep(bad)), name)
	}

	// An array that is gone: the graph is checked when it is instantiated or launched.
	p.ok("cuArrayDestroy", a)
	got := p.call("cuGraphInstantiateWithFlags", p.out, hand, 0)
	if got == cuda.Success {
		got = p.call("cuGraphLaunch", p.word(p.out), p.stream)
	}
	require.Equal(t, cuda.ErrInvalidHandle, got)
}
