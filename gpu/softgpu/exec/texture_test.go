package exec

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/texture"
)

// Where the tests of textures have their objects and texels.
const (
	objectAt = exectest.BufB
	texelsAt = exectest.BufB + 4096
)

// texels are the texels of the tests as the host reads them.
type texels struct{ m *exectest.Memory }

func (x texels) Texels(b *texture.Batch) {
	for n, addr := range b.Addr[:b.N] {
		var word [16]byte
		copy(word[:], x.m.Read(addr, b.Size))
		b.Data[n] = texture.Raw{Lo: binary.LittleEndian.Uint64(word[:]), Hi: binary.LittleEndian.Uint64(word[8:])}
	}
}

// on is a texture unit of the host.
func on(m *exectest.Memory) *texture.Unit { return &texture.Unit{Memory: texels{m}} }

// runTexture runs a body in one block of 32 threads with an object in %rd2, which has its
// memory at texelsAt, filled with a pattern.
func runTexture(t *testing.T, d *texture.Descriptor, body string) (*exectest.Memory, error) {
	t.Helper()
	m, k := texturesOf(t, d, body, "")
	return m, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), SharedBytes: 64,
		Params: params(uint64(exectest.BufA), uint64(objectAt), uint32(32))}, m, new(Control), 1)
}

// texturesOf is the memory and the kernel of runTexture; extra stands at module scope.
func texturesOf(t testing.TB, d *texture.Descriptor, body, extra string) (*exectest.Memory, *Kernel) {
	t.Helper()
	d.Width, d.Height, d.Depth, d.Layers = max(d.Width, 1), max(d.Height, 1), max(d.Depth, 1), max(d.Layers, 1)
	size, err := d.Place()
	require.NoError(t, err)
	require.LessOrEqual(t, size, uint64(4096))
	d.Base = texelsAt
	var raw [texture.Size]byte
	d.Encode(&raw)
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source(extra, body), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 8192)
	m.Write(objectAt, raw[:])
	m.Write(objectAt+texture.Size, raw[:])
	pattern := make([]byte, 4096)
	for n := range pattern {
		pattern[n] = byte(n*37>>2 + n)
	}
	m.Write(texelsAt, pattern)
	return m, k
}

// four stores %r4 to %r7 of each thread.
const four = " shl.b32 %r18, %r2, 4; cvt.u64.u32 %rd18, %r18; add.u64 %rd18, %rd18, %rd1; st.global.v4.u32 [%rd18], {%r4, %r5, %r6, %r7};"

// at makes the coordinates %f1 = tid*0.37-2, %f2 = tid*0.11-1 and %f3 = 1-tid*0.07.
const at = `cvt.rn.f32.u32 %f4, %r2; fma.rn.f32 %f1, %f4, 0f3EBD70A4, 0fC0000000; fma.rn.f32 %f2, %f4, 0f3DE147AE, 0fBF800000;
	fma.rn.f32 %f3, %f4, 0fBD8F5C29, 0f3F800000;`

func pointOf(tid int) texture.Point {
	fma := func(x, y, z float32) float32 { return float32(float64(x)*float64(y) + float64(z)) } // exact but for one rounding
	n := float32(tid)
	return texture.Point{X: fma(n, 0.37, -2), Y: fma(n, 0.11, -1), Z: fma(n, -0.07, 1), Layer: uint32(tid % 3)}
}

func TestTextures(t *testing.T) {
	wrap, clamp := [3]texture.Mode{texture.Wrap, texture.Mirror, texture.Clamp}, [3]texture.Mode{texture.Clamp, texture.Clamp, texture.Border}
	for _, c := range []struct {
		name, body              string
		d                       texture.Descriptor
		gather, level, gradient bool
	}{
		{name: "1D", body: "tex.1d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1}];",
			d: texture.Descriptor{Shape: texture.Shape1D, Format: texture.F32, Channels: 4, Width: 9, Linear: true, Normalized: true, Address: wrap}},
		{name: "2D", body: "tex.2d.v4.s32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];",
			d: texture.Descriptor{Shape: texture.Shape2D, Format: texture.S8, Channels: 2, Width: 5, Height: 7, Address: clamp}},
		{name: "3D", body: "tex.3d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2, %f3, %f3}];",
			d: texture.Descriptor{Shape: texture.Shape3D, Format: texture.U8, Floats: true, Channels: 4, Width: 5, Height: 3, Depth: 2, Linear: true, Address: clamp}},
		{name: "layered 1D", body: "tex.a1d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r8, %f1}];",
			d: texture.Descriptor{Shape: texture.Shape1D, Layered: true, Layers: 2, Format: texture.F16, Channels: 4, Width: 9, Linear: true, Address: clamp}},
		{name: "layered 2D", body: "tex.a2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r8, %f1, %f2, %f2}];",
			d: texture.Descriptor{Shape: texture.Shape2D, Layered: true, Layers: 3, Format: texture.U32, Channels: 1, Width: 9, Height: 3, Normalized: true, Address: wrap}},
		{name: "cube", body: "tex.cube.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2, %f3, %f3}];",
			d: texture.Descriptor{Shape: texture.ShapeCube, Format: texture.S16, Floats: true, Channels: 1, Width: 4, Height: 4, Linear: true}},
		{name: "layered cube", body: "tex.acube.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r8, %f1, %f2, %f3}];",
			d: texture.Descriptor{Shape: texture.ShapeCube, Layered: true, Layers: 2, Format: texture.F32, Channels: 1, Width: 4, Height: 4}},
		{name: "mipmaps", body: "tex.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];",
			d: texture.Descriptor{Shape: texture.Shape2D, Format: texture.U8, Floats: true, SRGB: true, Channels: 4, Width: 9, Height: 5, Linear: true, Address: clamp, Levels: 4, MinLevel: 1, MaxLevel: 3}},
		{name: "level", body: "tex.level.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}], %f3;", level: true,
			d: texture.Descriptor{Shape: texture.Shape2D, Format: texture.U8, Floats: true, Channels: 4, Width: 9, Height: 5, Linear: true, Address: clamp, Levels: 4, LinearMip: true, Bias: 0.75, MaxLevel: 9}},
		{name: "level of layers", body: "tex.level.a2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r8, %f1, %f2, %f2}], %f3;", level: true,
			d: texture.Descriptor{Shape: texture.Shape2D, Layered: true, Layers: 3, Format: texture.U32, Channels: 1, Width: 5, Height: 4, Address: clamp, Levels: 3, Bias: 1, MaxLevel: 2}},
		{name: "gradient", body: "tex.grad.3d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2, %f3, %f3}], {%f3, %f2, %f1, %f1}, {%f2, %f3, %f1, %f1};", gradient: true,
			d: texture.Descriptor{Shape: texture.Shape3D, Format: texture.U8, Floats: true, Channels: 1, Width: 4, Height: 3, Depth: 4, Linear: true, Normalized: true, Address: wrap, Levels: 3, LinearMip: true, MaxLevel: 2}},
		{name: "gather", body: "tld4.b.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];", gather: true,
			d: texture.Descriptor{Shape: texture.Shape2D, Format: texture.U16, Channels: 4, Width: 5, Height: 7, Address: clamp}},
		{name: "two objects", body: "and.b32 %r9, %r2, 1; mad.wide.u32 %rd2, %r9, 128, %rd2; tex.2d.v4.s32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];",
			d: texture.Descriptor{Shape: texture.Shape2D, Format: texture.S32, Channels: 2, Width: 5, Height: 7, Address: clamp}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := runTexture(t, &c.d, at+"rem.u32 %r8, %r2, 3;"+c.body+four)
			require.NoError(t, err)
			got := readAll[uint32](m, exectest.BufA, 4*32)
			for tid := range 32 {
				p := pointOf(tid)
				want := on(m).Fetch(&c.d, p)
				switch {
				case c.gather:
					want = on(m).Gather(&c.d, p, 2)
				case c.level:
					want = on(m).FetchLevel(&c.d, p, p.Z)
				case c.gradient:
					want = on(m).FetchGradient(&c.d, p, texture.Vector{X: p.Z, Y: p.Y, Z: p.X}, texture.Vector{X: p.Y, Y: p.Z, Z: p.X})
				}
				require.Equal(t, want[:], got[4*tid:][:4], "thread %d", tid)
			}
		})
	}
}

func TestTexelsByNumber(t *testing.T) {
	d := texture.Descriptor{Shape: texture.ShapeBuffer, Format: texture.S16, Channels: 1, Width: 20}
	m, err := runTexture(t, &d, "mov.b32 %r4, 77; setp.ne.u32 %p1, %r2, 3; sub.s32 %r8, %r2, 2; @%p1 tex.1d.v4.s32.s32 {%r4, _, %r6, %r7}, [%rd2, %r8];"+four)
	require.NoError(t, err)
	got := readAll[uint32](m, exectest.BufA, 4*32)
	for tid := range 32 {
		want := on(m).Load(&d, texture.Texel{X: int32(tid) - 2})[0]
		if tid == 3 {
			want = 77 // the guard left it out
		}
		require.Equal(t, want, got[4*tid], "thread %d", tid)
	}
}

func TestQueries(t *testing.T) {
	d := texture.Descriptor{Shape: texture.Shape2D, Layered: true, Layers: 3, Format: texture.U8, Floats: true, Channels: 2, Width: 5, Height: 7, Normalized: true}
	m, err := runTexture(t, &d, "txq.width.b32 %r4, [%rd2]; txq.height.b32 %r5, [%rd2]; txq.array_size.b32 %r6, [%rd2]; txq.channel_data_type.b32 %r7, [%rd2];"+four)
	require.NoError(t, err)
	require.Equal(t, []uint32{5, 7, 3, 0x10d2}, readAll[uint32](m, exectest.BufA, 4))
}

func TestSurfaces(t *testing.T) {
	d := texture.Descriptor{Surface: true, Shape: texture.Shape2D, Format: texture.U8, Channels: 4, Width: 8, Height: 4}
	// Each thread negates its element of 8 by 4, and reads the one to its left.
	m, err := runTexture(t, &d, `and.b32 %r8, %r2, 7; shl.b32 %r8, %r8, 2; shr.u32 %r9, %r2, 3;
		suld.b.2d.b32.trap {%r10}, [%rd2, {%r8, %r9}]; not.b32 %r10, %r10; sust.b.2d.b32.trap [%rd2, {%r8, %r9}], {%r10};
		bar.warp.sync -1; sub.s32 %r8, %r8, 4; mov.b32 %r6, 0; mov.b32 %r7, 0;
		suld.b.2d.b32.zero %r4, [%rd2, {%r8, %r9}]; suld.b.2d.v2.b16.clamp {%r5, _}, [%rd2, {%r8, %r9}];`+four)
	require.NoError(t, err)
	got := readAll[uint32](m, exectest.BufA, 4*32)
	for tid := range 32 {
		row := texelsAt + uint64(tid/8)*d.Pitch
		inside := binary.LittleEndian.Uint32(m.Read(row+4*uint64(max(tid%8-1, 0)), 4))
		zero := inside
		if tid%8 == 0 {
			zero = 0
		}
		require.Equal(t, []uint32{zero, inside & 0xffff}, got[4*tid:][:2], "thread %d", tid)
	}
	first := byte(0)
	require.Equal(t, ^first, m.Read(texelsAt, 1)[0])
}

// TestLevels are the queries of levels, and texels by number in one.
func TestLevels(t *testing.T) {
	d := texture.Descriptor{Shape: texture.Shape2D, Format: texture.S16, Channels: 1, Width: 20, Height: 7, Levels: 3}
	m, err := runTexture(t, &d, `txq.num_mipmap_levels.b32 %r4, [%rd2]; txq.level.width.b32 %r5, [%rd2], 2; txq.level.height.b32 %r6, [%rd2], %r2;
		mov.b32 %r8, 3; mov.b32 %r9, 1; tex.level.2d.v4.s32.s32 {%r7, _, _, _}, [%rd2, {%r8, %r9}], %r2;`+four)
	require.NoError(t, err)
	got := readAll[uint32](m, exectest.BufA, 4*32)
	for tid := range 32 {
		want := on(m).Load(&d, texture.Texel{X: 3, Y: 1, Level: int32(tid)})[0]
		require.Equal(t, []uint32{3, 5, []uint32{7, 3, 1, 0}[min(tid, 3)], want}, got[4*tid:][:4], "thread %d", tid)
	}
	require.NotZero(t, got[3])
	require.Equal(t, on(m).Load(&d, texture.Texel{X: 3, Level: 2})[0], got[4*2+3], "(3, 1) is brought into the third level")
}

// TestFormattedStores write numbers in a surface's own format.
func TestFormattedStores(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      texture.Descriptor
		values string
		want   uint64
	}{
		{name: "bytes", d: texture.Descriptor{Format: texture.U8, Channels: 4}, values: "{1, 300, -1, 4}", want: 0x04ffff01},
		{name: "signed shorts", d: texture.Descriptor{Format: texture.S16, Channels: 2}, values: "{-100000, 7, 3, 4}", want: 0x0007_8000},
		{name: "halves", d: texture.Descriptor{Format: texture.F16, Channels: 4}, values: "{0x3f800000, 0x47800000, 0x7fc00001, 0x33800001}", want: 0x0001_7fff_7c00_3c00},
		{name: "float", d: texture.Descriptor{Format: texture.F32, Channels: 1}, values: "{0x3f800001, 2, 3, 4}", want: 0x3f800001},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.d
			d.Surface, d.Shape, d.Width = true, texture.Shape1D, 32
			m, err := runTexture(t, &d, "sust.p.1d.v4.b32.trap [%rd2, {%r2}], "+c.values+";")
			require.NoError(t, err)
			size := uint64(d.Format.Size()) * uint64(d.Channels)
			for _, n := range []uint64{0, 31} {
				var word [8]byte
				copy(word[:], m.Read(texelsAt+n*size, size))
				require.Equal(t, c.want, binary.LittleEndian.Uint64(word[:]), "element %d", n)
			}
		})
	}
}

func TestReductions(t *testing.T) {
	d := texture.Descriptor{Surface: true, Shape: texture.Shape1D, Format: texture.U32, Channels: 4, Width: 2}
	m, err := runTexture(t, &d, `mov.b32 %r8, 0; mov.b32 %r9, 4; mov.b32 %r10, 8; cvt.u64.u32 %rd5, %r2; mov.b32 %r11, 24; mov.b32 %r12, 4096;
		setp.ne.u32 %p1, %r2, 0; @!%p1 sust.b.1d.v4.b32.trap [%rd2, {%r8}], {%r8, %r8, %r8, %r8};
		@!%p1 sust.b.1d.v4.b32.zero [%rd2, {16}], {%r8, %r8, %r8, %r8}; bar.warp.sync -1;
		sured.b.add.1d.u32.trap [%rd2, {%r8}], %r2; sured.b.max.1d.s32.trap [%rd2, {%r9}], {%r2};
		sured.b.or.1d.b32.clamp [%rd2, %r10], %r2; sured.b.add.1d.u64.zero [%rd2, {%r11}], %rd5; sured.b.min.1d.u32.zero [%rd2, {%r12}], 0;`)
	require.NoError(t, err)
	require.Equal(t, []uint32{31 * 16, 31, 31, 0, 0, 0, 31 * 16, 0}, readAll[uint32](m, texelsAt, 8))
}

// TestReferences fetches by a texture reference, a variable with the handle of an object.
func TestReferences(t *testing.T) {
	d := texture.Descriptor{Shape: texture.Shape1D, Format: texture.S32, Channels: 1, Width: 40}
	m, k := texturesOf(t, &d, "tex.1d.v4.s32.s32 {%r4, %r5, %r6, %r7}, [bound, %r2];"+four, ".global .texref bound; .global .surfref unused;")
	run := func() error {
		return Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), SharedBytes: 64, Params: params(uint64(exectest.BufA), uint64(objectAt), uint32(32))}, m, new(Control), 1)
	}
	require.Equal(t, gpu.LostAddress, lost(t, run()).Cause, "nothing is bound")
	writeAll(m, dataBase, []uint64{objectAt})
	require.NoError(t, run())
	got := readAll[uint32](m, exectest.BufA, 4*32)
	for tid := range 32 {
		require.Equal(t, on(m).Load(&d, texture.Texel{X: int32(tid)})[0], got[4*tid], "thread %d", tid)
	}
}

func TestWideSurface(t *testing.T) {
	d := texture.Descriptor{Surface: true, Shape: texture.Shape3D, Format: texture.F32, Channels: 4, Width: 2, Height: 2, Depth: 8}
	m, err := runTexture(t, &d, `and.b32 %r8, %r2, 1; shl.b32 %r8, %r8, 4; bfe.u32 %r9, %r2, 1, 1; shr.u32 %r10, %r2, 2; cvt.u64.u32 %rd5, %r2;
		sust.b.3d.v2.b64.trap [%rd2, {%r8, %r9, %r10, %r10}], {%rd5, %rd4}; suld.b.3d.v4.b32.trap {%r4, %r5, %r6, %r7}, [%rd2, {%r8, %r9, %r10, %r10}];`+four)
	require.NoError(t, err)
	got := readAll[uint32](m, exectest.BufA, 4*32)
	for tid := range uint32(32) {
		require.Equal(t, []uint32{tid, 0, exectest.BufA + 4*tid, 0}, got[4*tid:][:4], "thread %d", tid)
	}
}

func TestTextureFaults(t *testing.T) {
	tex := texture.Descriptor{Shape: texture.Shape2D, Format: texture.F32, Channels: 1, Width: 4, Height: 4}
	surf := texture.Descriptor{Surface: true, Shape: texture.Shape2D, Format: texture.F32, Channels: 1, Width: 4, Height: 4}
	for _, c := range []struct {
		name, body string
		d          texture.Descriptor
		cause      gpu.LostCause
		addr       uint64
	}{
		{name: "no object", d: tex, body: "mov.u64 %rd2, 0; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f1, %f2}];", cause: gpu.LostAddress},
		{name: "memory that is no object", d: tex, body: "add.u64 %rd2, %rd2, 256; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f1, %f2}];", cause: gpu.LostAddress, addr: objectAt + 256},
		{name: "inside an object", d: tex, body: "add.u64 %rd2, %rd2, 4; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f1, %f2}];", cause: gpu.LostAddress, addr: objectAt + 4},
		{name: "another shape", d: tex, body: "tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f1, %f2, %f3, %f3}];", cause: gpu.LostInstruction},
		{name: "a surface", d: surf, body: "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f1, %f2}];", cause: gpu.LostInstruction},
		{name: "a texture", d: tex, body: "mov.b32 %r4, 0; suld.b.2d.b32.trap %r4, [%rd2, {%r4, %r4}];", cause: gpu.LostInstruction},
		{name: "outside of a surface", d: surf, body: "mov.b32 %r4, 16; suld.b.2d.b32.trap %r4, [%rd2, {%r4, %r4}];", cause: gpu.LostAddress, addr: texelsAt},
		{name: "misaligned", d: surf, body: "mov.b32 %r4, 2; suld.b.2d.b32.zero %r4, [%rd2, {%r4, %r4}];", cause: gpu.LostAlign, addr: texelsAt},
		{name: "unmapped texels", d: tex, body: "mov.u64 %rd5, 0x7f0000000000; st.global.u64 [%rd2+16], %rd5; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {0f00000000, 0f00000000}];",
			cause: gpu.LostAddress, addr: 0x7f0000000000},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runTexture(t, &c.d, c.body)
			e := lost(t, err)
			require.Equal(t, c.cause, e.Cause, "%v", e)
			require.Equal(t, c.addr, e.Addr, "%v", e)
		})
	}
}

func TestHugeCoordinates(t *testing.T) {
	d := texture.Descriptor{Shape: texture.Shape1D, Format: texture.F32, Channels: 1, Width: 4, Linear: true, Normalized: true, Address: [3]texture.Mode{texture.Wrap}}
	for _, x := range []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 1, 0x80000001} {
		m, err := runTexture(t, &d, fmt.Sprintf("mov.b32 %%r8, 0x%x;", x)+" mov.b32 %f1, %r8; tex.1d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1}];"+four)
		require.NoError(t, err)
		want := on(m).Fetch(&d, texture.Point{X: math.Float32frombits(x)})
		require.Equal(t, want[:], readAll[uint32](m, exectest.BufA, 4))
	}
}
