//go:build goexperiment.simd && amd64

package simt

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// portableAccesses are the loads and stores as they are before init.
var portableAccesses = maps.Clone(accessFuncs)

// accessWarp is a warp that can access memory: pages of 4 KiB, of which the
// last is read only and what follows is not mapped.
func accessWarp() (*warp, *memory) {
	m := newMemory(4096)
	m.mapRange(bufA, 3*4096)
	m.prot[bufA+2*4096] = gpu.ProtRead
	r := rand.New(rand.NewPCG(4, 4))
	for at := uint64(bufA); at < bufA+3*4096; at += 4096 {
		fillRandom(r, m.pages[at])
	}
	w := fuzzWarp()
	w.block = &block{prog: &Program{}, kernel: &Kernel{}, shared: wordBytes(make([]uint64, 512))}
	fillRandom(r, w.block.shared)
	w.local = make([][32]uint32, 16)
	w.worker = &worker{run: &run{kernel: w.block.kernel, space: m}}
	return w, m
}

func fillRandom(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// access runs fn and returns the fault it meets, or nil.
func access(fn laneFunc, w *warp, in *inst) (fault any) {
	defer func() { fault = recover() }()
	fn(w, in)
	return nil
}

// addresses are those of 32 lanes, in one of the ways that programs have.
func addresses(r *rand.Rand, base, size uint64) (a [32]uint64) {
	start := base + size*r.Uint64N(64)
	switch r.IntN(4) {
	case 0: // anywhere in the buffer, its end included
		start = base + size*r.Uint64N(3*4096/size)
	case 1: // not aligned
		start += r.Uint64N(size)
	}
	width, stride := []int{1, 4, 8, 16, 32}[r.IntN(5)], size*r.Uint64N(40)
	step := []uint64{0, size, size, size, 2 * size, -size}[r.IntN(6)]
	for i := range a {
		a[i] = start + uint64(i/width)*stride + uint64(i%width)*step
	}
	if r.IntN(8) == 0 { // but for a group
		for i, by := 8*r.IntN(4), 1+r.Uint64N(size); i < 32; i++ {
			a[i] += by
		}
	}
	if r.IntN(4) == 0 { // but for one lane
		a[r.IntN(32)] += []uint64{1, size, 4096, 1 << 31, 1 << 40, -size}[r.IntN(6)]
	}
	return a
}

// SIMD loads and stores leave the registers, the memory and the fault that the
// portable ones leave.
func TestSIMDAccesses(t *testing.T) {
	needSIMD(t)
	moved := map[accessKey]int{}
	for key, fn := range simdAccesses {
		r := rand.New(rand.NewPCG(5, uint64(key.size)))
		for n := range rounds {
			want, wantMem := accessWarp()
			got, gotMem := accessWarp()
			randomLanes(r, want)
			in := &inst{d: 0, a: r.Uint32N(2), imm: r.Uint64N(3) * uint64(key.size), align: uint8(key.size) - 1}
			base := uint64(bufA)
			in.space = []space{spaceGlobal, spaceGlobal, spaceGeneric, spaceShared, spaceLocal}[r.IntN(5)]
			if !key.wide { // global addresses are always wide
				in.space = []space{spaceShared, spaceShared, spaceLocal}[r.IntN(3)]
			}
			if in.space == spaceShared || in.space == spaceLocal {
				base = 0
			} else if in.space == spaceGeneric && r.IntN(2) == 0 {
				base = []uint64{SharedBase, LocalBase}[r.IntN(2)]
			}
			if r.IntN(8) == 0 {
				in.align = 15
			}
			for i, x := range addresses(r, base-in.imm, uint64(key.size)) {
				want.r64[in.a][i], want.r32[in.a][i] = x, uint32(x)
			}
			want.mask = allLanes
			if n%4 == 0 {
				want.mask = masks[r.IntN(len(masks))]
			}
			c := clone(want)
			got.r32, got.r64, got.pr, got.mask = c.r32, c.r64, c.pr, c.mask

			wantFault, gotFault := access(portableAccesses[key], want, in), access(fn, got, in)
			require.Equal(t, wantFault, gotFault, "%+v %+v", key, in)
			if wantFault != nil {
				require.IsType(t, &gpu.LostError{}, wantFault, "%v", wantFault)
			} else {
				moved[key]++
			}
			require.True(t, equalLanes(want, got), "%+v %+v", key, in)
			require.Equal(t, wantMem.pages, gotMem.pages, "%+v %+v", key, in)
			require.Equal(t, want.block.shared, got.block.shared, "%+v %+v", key, in)
			require.Equal(t, want.local, got.local, "%+v %+v", key, in)
		}
		require.Greater(t, moved[key], rounds/10, "%+v: hardly any access without a fault", key)
	}
}

// Shapes are found, so that the vector paths are taken.
func TestShape(t *testing.T) {
	needSIMD(t)
	for _, size := range []uint64{4, 8} {
		for _, c := range []struct {
			name string
			at   func(i uint64) uint64
			want shape
		}{
			{"row", func(i uint64) uint64 { return 1<<40 + i*size }, rows},
			{"two rows", func(i uint64) uint64 { return i/16*1000 + i%16*size }, rows},
			{"one word", func(i uint64) uint64 { return 1 << 33 }, same},
			{"four words", func(i uint64) uint64 { return i / 8 * 77 }, same},
			{"columns", func(i uint64) uint64 { return i * 4096 }, scattered},
			{"half words", func(i uint64) uint64 { return i * size / 2 }, scattered},
			{"rows of 4", func(i uint64) uint64 { return i/4*1000 + i%4*size }, scattered},
			{"last lane", func(i uint64) uint64 { return i*size + i/31 }, scattered},
		} {
			var wide [32]uint64
			var narrow [32]uint32
			for i := range wide {
				wide[i] = c.at(uint64(i))
				narrow[i] = uint32(wide[i])
			}
			require.Equal(t, c.want, shapeQ(&wide, size), c.name)
			require.Equal(t, c.want, shapeW(&narrow, size), c.name)
		}
	}
}
