package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

const floatOne = 0x20 | 1<<32 // CU_AD_FORMAT_FLOAT, one channel

// bytes reads memory of the program.
func (p *program) bytes(addr uint64, n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	require.NoError(p.t, p.mem.Read(b, addr))
	return b
}

func TestArrays(t *testing.T) {
	p := newProgramInContext(t)
	a := p.word64("cuArrayCreate_v2", p.words(16, 8, floatOne))
	p.ok("cuArray3DGetDescriptor_v2", p.out, a)
	require.Equal(t, p.bytes(p.words(16, 8, 0, floatOne, 0), 40), p.bytes(p.out, 40))

	// Two rows of 12 bytes go to column 4 of rows 1 and 2, and come back from row 2.
	from, back := p.words(1, 2, 3, 4), p.words(0, 0)
	p.ok("cuMemcpy2D_v2", p.words(0, 0, memoryHost, from, 0, 0, 16, 16, 1, memoryArray, 0, 0, a, 0, 12, 2))
	p.ok("cuMemcpy2D_v2", p.words(16, 2, memoryArray, 0, 0, a, 0, 0, 0, memoryHost, back, 0, 0, 12, 12, 1))
	require.Equal(t, p.bytes(from+16, 12), p.bytes(back, 12))

	p.ok("cuMemcpyHtoA_v2", a, 8, from, 16)
	p.ok("cuMemcpyAtoH_v2", back, a, 16, 8)
	require.EqualValues(t, 2, p.word(back))

	for name, rows := range map[string][]uint64{
		"a row too far": {0, 0, memoryHost, from, 0, 0, 4, 0, 7, memoryArray, 0, 0, a, 0, 4, 2},
		"too wide":      {0, 0, memoryHost, from, 0, 0, 8, 60, 0, memoryArray, 0, 0, a, 0, 8, 1},
		"far outside":   {0, 0, memoryHost, from, 0, 0, 8, 1<<64 - 4, 0, memoryArray, 0, 0, a, 0, 8, 1},
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemcpy2D_v2", p.words(rows...)), name)
	}
	p.gives(cuda.ErrInvalidValue, "cuMemcpyHtoA_v2", a, 60, from, 8)
	p.gives(cuda.ErrInvalidHandle, "cuMemcpyHtoA_v2", from, 0, from, 8)
	p.ok("cuArrayDestroy", a)
	p.gives(cuda.ErrInvalidHandle, "cuArrayDestroy", a)
}

func TestArrayShapes(t *testing.T) {
	p := newProgramInContext(t)
	for _, c := range []struct {
		name                        string
		width, height, depth, flags uint64
		want                        cuda.Result
	}{
		{name: "1D", width: 100},
		{name: "3D", width: 5, height: 6, depth: 7},
		{name: "layered 1D", width: 5, depth: 7, flags: arrayLayered},
		{name: "layered 2D", width: 5, height: 6, depth: 7, flags: arrayLayered | 2},
		{name: "cube", width: 8, height: 8, depth: 6, flags: arrayCube},
		{name: "cubes", width: 8, height: 8, depth: 12, flags: arrayCube | arrayLayered},
		{name: "empty", want: cuda.ErrInvalidValue},
		{name: "depth without height", width: 5, depth: 7, want: cuda.ErrInvalidValue},
		{name: "no layers", width: 5, height: 6, flags: arrayLayered, want: cuda.ErrInvalidValue},
		{name: "five faces", width: 8, height: 8, depth: 5, flags: arrayCube, want: cuda.ErrInvalidValue},
		{name: "a flat cube", width: 8, height: 4, depth: 6, flags: arrayCube, want: cuda.ErrInvalidValue},
		{name: "too deep", width: 8, height: 8, depth: 1 << 20, want: cuda.ErrInvalidValue},
		{name: "huge", width: 1 << 62, height: 1 << 62, want: cuda.ErrInvalidValue},
		{name: "sparse", width: 5, flags: 0x40, want: cuda.ErrNotSupported},
	} {
		got := p.call("cuArray3DCreate_v2", p.out, p.words(c.width, c.height, c.depth, floatOne, c.flags))
		require.Equal(t, c.want, got, c.name)
		if got == cuda.Success {
			p.ok("cuArrayDestroy", p.word(p.out))
		}
	}
	p.gives(cuda.ErrInvalidValue, "cuArrayCreate_v2", p.out, p.words(16, 8, 7|1<<32))
	p.gives(cuda.ErrInvalidValue, "cuArrayCreate_v2", p.out, p.words(16, 8, 0x20|3<<32))
}

// descriptor decodes what kernels find at the handle of an object.
func (p *program) descriptor(handle uint64) (d texture.Descriptor) {
	p.t.Helper()
	to := p.mem.Keep(make([]byte, texture.Size))
	p.ok("cuMemcpyDtoH_v2", to, handle, texture.Size)
	raw := [texture.Size]byte(p.bytes(to, texture.Size))
	require.NoError(p.t, d.Decode(&raw))
	return d
}

func TestObjects(t *testing.T) {
	p := newProgramInContext(t)
	a := p.word64("cuArrayCreate_v2", p.words(16, 8, 1|4<<32))
	ofArray := p.words(make([]uint64, 18)...)
	require.NoError(t, p.mem.Write(ofArray+8, binary.LittleEndian.AppendUint64(nil, a)))
	sampler := p.halves(0, 1, 2, 1, normalizedCoords, 0, 0, 0, 0, 0, 0x3f800000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

	tex := p.word64("cuTexObjectCreate", ofArray, sampler, 0)
	d := p.descriptor(tex)
	require.Equal(t, [3]texture.Mode{texture.Wrap, texture.Clamp, texture.Mirror}, d.Address)
	require.Equal(t, [4]float32{1}, d.Border)
	require.True(t, d.Linear && d.Normalized && d.Floats && !d.Surface)
	require.Equal(t, []uint32{16, 8, 1}, []uint32{d.Width, d.Height, d.Depth})
	room := p.mem.Keep(make([]byte, resourceBytes))
	p.ok("cuTexObjectGetResourceDesc", room, tex)
	require.Equal(t, p.bytes(ofArray, resourceBytes), p.bytes(room, resourceBytes))
	p.ok("cuTexObjectGetTextureDesc", room, tex)
	require.Equal(t, p.bytes(sampler, textureBytes), p.bytes(room, textureBytes))

	surf := p.word64("cuSurfObjectCreate", ofArray)
	require.True(t, p.descriptor(surf).Surface)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectDestroy", surf)
	p.ok("cuSurfObjectDestroy", surf)
	p.ok("cuTexObjectDestroy", tex)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectDestroy", tex)

	raw := p.halves(1, 1, 1, 1, readAsInteger, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, ofArray, raw, 0) // integers have no filter
	p.gives(cuda.ErrInvalidValue, "cuTexObjectCreate", p.out, ofArray, sampler, ofArray)
	p.ok("cuArrayDestroy", a)
	p.gives(cuda.ErrInvalidHandle, "cuTexObjectCreate", p.out, ofArray, sampler, 0)
}

// TestSeamlessObjects creates filters that look beyond the faces of a cube, as NVIDIA's libcuda 580 does: of
// cubes alone, and with flags that it does not know below the next.
func TestSeamlessObjects(t *testing.T) {
	p := newProgramInContext(t)
	sampler := func(flags uint32) uint64 {
		return p.halves(append([]uint32{1, 1, 1, 1, flags}, make([]uint32, 21)...)...)
	}
	ofArray := p.words(make([]uint64, 18)...)
	for _, c := range []struct {
		cube  bool
		flags uint32
		want  cuda.Result
	}{
		{cube: true, flags: seamlessCubes}, {cube: true, flags: 0x7f &^ colourSRGB &^ readAsInteger}, {cube: true, flags: 0x80, want: cuda.ErrInvalidValue},
		{flags: seamlessCubes, want: cuda.ErrInvalidValue}, {flags: 4 | 8},
	} {
		desc := p.words(8, 8, 0, floatOne, 0)
		if c.cube {
			desc = p.words(8, 8, 6, floatOne, arrayCube)
		}
		require.NoError(t, p.mem.Write(ofArray+8, binary.LittleEndian.AppendUint64(nil, p.word64("cuArray3DCreate_v2", desc))))
		p.gives(c.want, "cuTexObjectCreate", p.out, ofArray, sampler(c.flags), 0)
		if c.want == cuda.Success {
			require.Equal(t, c.flags&seamlessCubes != 0, p.descriptor(p.word(p.out)).Seamless, "flags 0x%x", c.flags)
		}
	}
}

func TestObjectsOfMemory(t *testing.T) {
	p := newProgramInContext(t)
	m := p.word64("cuMemAlloc_v2", 4096)
	point := p.halves(make([]uint32, 26)...)
	resource := func(kind, addr, width, height, pitch uint64) uint64 {
		return p.words(append([]uint64{kind, addr, floatOne, width, height, pitch}, make([]uint64, 12)...)...)
	}
	d := p.descriptor(p.word64("cuTexObjectCreate", resource(resourceLinear, m, 400, 0, 0), point, 0))
	require.Equal(t, texture.ShapeBuffer, d.Shape)
	require.EqualValues(t, 100, d.Width)
	d = p.descriptor(p.word64("cuTexObjectCreate", resource(resourcePitch2D, m, 10, 16, 256), point, 0))
	require.Equal(t, []uint64{m, 256, 10, 16}, []uint64{d.Base, d.Pitch, uint64(d.Width), uint64(d.Height)})

	for name, r := range map[string]uint64{
		"beyond the memory": resource(resourceLinear, m, 4100, 0, 0),
		"nothing":           resource(resourceLinear, m, 0, 0, 0),
		"no memory":         resource(resourceLinear, 0x1000, 4, 0, 0),
		"not aligned":       resource(resourceLinear, m+4, 4, 0, 0),
		"rows beyond":       resource(resourcePitch2D, m, 10, 17, 256),
		"pitch":             resource(resourcePitch2D, m, 10, 2, 44),
		"narrow pitch":      resource(resourcePitch2D, m, 10, 2, 32),
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuTexObjectCreate", p.out, r, point, 0), name)
	}
	p.gives(cuda.ErrInvalidHandle, "cuTexObjectCreate", p.out, resource(1, m, 0, 0, 0), point, 0)
	p.gives(cuda.ErrInvalidValue, "cuSurfObjectCreate", p.out, resource(resourceLinear, m, 400, 0, 0))
}

func TestNoTextures(t *testing.T) {
	p := newProgram(t)
	p.gpu.Params[drm.ParamTextures] = 0
	p.lib.Close()
	p = reopened(p)
	p.gives(cuda.ErrNotSupported, "cuArrayCreate_v2", p.out, p.words(16, 8, floatOne))
	p.gives(cuda.ErrNotSupported, "cuTexObjectCreate", p.out, p.out, p.out, 0)
}
