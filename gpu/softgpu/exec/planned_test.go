package exec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/texture"
)

// pointsAt is where the kernels of these tests have the point of each thread, and whether it fetches.
const pointsAt = exectest.BufA + 4096

// guarded fetches at the point of each thread that has a word which is not 0; the others store 77.
const guarded = `shl.b32 %r18, %r2, 4; cvt.u64.u32 %rd18, %r18; add.u64 %rd18, %rd18, %rd1; add.u64 %rd18, %rd18, 4096;
	ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%rd18]; mov.b32 %f1, %r8; mov.b32 %f2, %r9; setp.ne.u32 %p1, %r11, 0;
	mov.b32 %r4, 77; mov.b32 %r5, 77; mov.b32 %r6, 77; mov.b32 %r7, 77; `

// plannedMemory places a texture at BufC, with random texels on pages of 4096 bytes, and the objects as runTexture does.
func plannedMemory(t *testing.T, r *rand.Rand, d *texture.Descriptor, base uint64, body string) (*exectest.Memory, *Kernel) {
	t.Helper()
	d.Height, d.Depth, d.Layers = max(d.Height, 1), max(d.Depth, 1), max(d.Layers, 1)
	size, err := d.Place()
	require.NoError(t, err)
	d.Base = base
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", guarded+body+four), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 4096)
	m.Map(exectest.BufC, (base-exectest.BufC+size+4095)&^4095)
	var raw [texture.Size]byte
	d.Encode(&raw)
	m.Write(objectAt, raw[:])
	texels := make([]byte, size)
	for at := 0; at+4 <= len(texels); at += 4 {
		binary.LittleEndian.PutUint32(texels[at:], math.Float32bits(r.Float32()*9-4))
	}
	m.Write(base, texels)
	return m, k
}

// runPlanned runs a block of 32 threads at points, of which those of a mask fetch.
func runPlanned(k *Kernel, m *exectest.Memory, points *[32][3]uint32, mask uint32) error {
	for i, p := range points {
		var word [16]byte
		for n, x := range p {
			binary.LittleEndian.PutUint32(word[4*n:], x)
		}
		binary.LittleEndian.PutUint32(word[12:], mask>>i&1)
		m.Write(pointsAt+16*uint64(i), word[:])
	}
	return Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), SharedBytes: 64,
		Params: params(uint64(exectest.BufA), uint64(objectAt), uint32(32))}, m, new(Control), 1)
}

// TestPlannedTextures compares fetches of a warp with those of a unit: formats, filters and modes, on one page
// and on several, by all threads and by some.
func TestPlannedTextures(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 150 {
		f := []texture.Format{texture.F32, texture.U8, texture.S32, texture.S16, texture.F16}[r.IntN(5)]
		d := texture.Descriptor{
			Shape: texture.Shape1D + texture.Shape(r.IntN(2)), Layered: r.IntN(4) == 0, Format: f, Channels: []uint8{1, 2, 4}[r.IntN(3)],
			Normalized: r.IntN(2) == 0, Floats: f == texture.U8, Address: [3]texture.Mode{texture.Mode(r.IntN(4)), texture.Mode(r.IntN(4))},
			Border: [4]float32{0.25, 1, -3, 7}, Width: []uint32{1, 9, 60, 300}[r.IntN(4)], Linear: (f.Float() || f == texture.U8) && r.IntN(2) == 0,
		}
		name := "1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1}];"
		if d.Layered {
			name, d.Layers = "a1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r10, %f1}];", 3
		}
		if d.Shape == texture.Shape2D {
			name, d.Height = "2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];", []uint32{1, 7, 40}[r.IntN(3)]
			if d.Layered {
				name = "a2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%r10, %f1, %f2, %f2}];"
			}
		}
		m, k := plannedMemory(t, r, &d, exectest.BufC+512*uint64(r.IntN(8)), "@%p1 tex."+name)
		for range 4 {
			var points [32][3]uint32
			near := r.Float32()
			for i := range points {
				u, v := r.Float32()*3-1, r.Float32()*3-1
				if r.IntN(2) == 0 {
					u, v = near+r.Float32()/50, near+r.Float32()/50 // with some luck on one page
				}
				if !d.Normalized {
					u, v = u*float32(d.Width), v*float32(d.Height)
				}
				points[i] = [3]uint32{math.Float32bits(u), math.Float32bits(v), r.Uint32N(4)}
			}
			mask := []uint32{math.MaxUint32, r.Uint32(), 1 << r.IntN(32)}[r.IntN(3)]
			require.NoError(t, runPlanned(k, m, &points, mask))
			got := readAll[uint32](m, exectest.BufA, 4*32)
			for i, p := range points {
				want := [4]uint32{77, 77, 77, 77}
				if mask>>i&1 != 0 {
					want = on(m).Fetch(&d, texture.Point{X: math.Float32frombits(p[0]), Y: math.Float32frombits(p[1]), Layer: p[2]})
				}
				require.Equal(t, want[:], got[4*i:][:4], "thread %d at %g, %g, mask %x: %+v", i, math.Float32frombits(p[0]), math.Float32frombits(p[1]), mask, d)
			}
		}
	}
}

// TestPlannedHoles unmaps a page of a texture: a warp whose threads look at the others runs, also where one beside
// would look there and does not fetch; one that looks there is a fault.
func TestPlannedHoles(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, linear := range []bool{false, true} {
		d := texture.Descriptor{Shape: texture.Shape2D, Format: texture.F32, Channels: 1, Width: 64, Height: 64, Linear: linear, Address: [3]texture.Mode{texture.Clamp, texture.Clamp}}
		m, k := plannedMemory(t, r, &d, exectest.BufC, "@%p1 tex.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd2, {%f1, %f2}];")
		m.Prot[exectest.BufC+2*4096] = gpu.ProtWrite // rows 32 to 47 cannot be read
		var points [32][3]uint32
		for i := range points {
			points[i] = [3]uint32{math.Float32bits(float32(2*i) + 0.25), math.Float32bits(float32(i/4) + 0.75)}
		}
		const odd = 17
		points[odd][1] = math.Float32bits(40.5)
		require.NoError(t, runPlanned(k, m, &points, ^uint32(1<<odd)))
		got := readAll[uint32](m, exectest.BufA, 4*32)
		for i, p := range points {
			if i == odd {
				require.Equal(t, uint32(77), got[4*i])
				continue
			}
			want := on(m).Fetch(&d, texture.Point{X: math.Float32frombits(p[0]), Y: math.Float32frombits(p[1])})
			require.Equal(t, want[:], got[4*i:][:4], "thread %d", i)
		}
		e := lost(t, runPlanned(k, m, &points, math.MaxUint32))
		require.Equal(t, gpu.LostAddress, e.Cause)
		first := uint64(exectest.BufC + 40*256 + 2*odd*4)
		if linear {
			first -= 4 // the texel to the left
		}
		require.Equal(t, first, e.Addr)
		require.Contains(t, e.Error(), "texel")
	}
}
