package simt

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// A vector load or store does what one of each element does.
func TestElements(t *testing.T) {
	each := map[accessKey]laneFunc{}
	for key := range elementFuncs {
		each[key] = func(w *warp, in *inst) { eachElement(w, in, uint64(key.size), portableAccesses[key]) }
	}
	for key, fn := range portableElements {
		testElements(t, key, each[key], fn)
	}
}

// portableAccesses and portableElements are the loads and stores before init may
// replace some by their SIMD twins: variables of a package, its tests' included,
// are initialised first.
var (
	portableAccesses = maps.Clone(accessFuncs)
	portableElements = maps.Clone(elementFuncs)
)

// testElements is testAccess for vectors of 4 and of 2.
func testElements(t *testing.T, key accessKey, want, got laneFunc) {
	t.Helper()
	in := inst{d: 0, b: 2, c: 3, e: 4, align: uint8(4*key.size - 1)}
	testAccess(t, key, in, want, got)
	in = inst{d: 0, b: 2, c: noReg, e: noReg, align: uint8(2*key.size - 1)}
	testAccess(t, key, in, want, got)
}

// accessWarp is a warp that can access memory: pages of 4 KiB, of which the
// last is read only and what follows is not mapped.
func accessWarp() (*warp, *memory) {
	m := newMemory(4096)
	m.mapRange(bufA, 3*4096)
	m.prot[bufA+2*4096] = gpu.ProtRead
	for at := uint64(bufA); at < bufA+3*4096; at += 4096 {
		fillPattern(m.pages[at], int(at>>12))
	}
	w := fuzzWarp()
	w.block = &block{prog: &Program{}, kernel: &Kernel{}, shared: wordBytes(make([]uint64, 512))}
	w.block.window = windowTo(w.block.shared)
	fillPattern(w.block.shared, 5)
	w.local = make([][32]uint32, 16)
	w.worker = &worker{run: &run{kernel: w.block.kernel, space: m}}
	return w, m
}

// fillPattern gives neighbouring words different bytes.
func fillPattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
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

// testAccess compares two functions for accesses of in.align+1 bytes, or more
// bytes than the alignment, with the address in register 1.
func testAccess(t *testing.T, key accessKey, in inst, correct, tested laneFunc) {
	t.Helper()
	require.NotNil(t, correct)
	r := rand.New(rand.NewPCG(5, uint64(key.size)))
	done, size := 0, uint64(in.align)+1
	for n := range accessRounds {
		want, wantMem := accessWarp()
		got, gotMem := accessWarp()
		randomLanes(r, want)
		in := in
		in.a, in.imm = 1, r.Uint64N(3)*size
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
		for i, x := range addresses(r, base-in.imm, size) {
			want.r64[1][i], want.r32[1][i] = x, uint32(x)
		}
		if r.IntN(8) == 0 {
			in.align = 15
		}
		want.mask = allLanes
		if n%4 == 0 {
			want.mask = masks[1+r.IntN(len(masks)-1)]
		}
		c := clone(want)
		got.r32, got.r64, got.pr, got.mask = c.r32, c.r64, c.pr, c.mask

		wantFault, gotFault := access(correct, want, &in), access(tested, got, &in)
		require.Equal(t, wantFault, gotFault, "%+v %+v", key, in)
		if wantFault == nil {
			done++
		} else {
			require.IsType(t, &gpu.LostError{}, wantFault, "%v", wantFault)
		}
		require.True(t, equalLanes(want, got), "%+v %+v", key, in)
		require.True(t, maps.EqualFunc(wantMem.pages, gotMem.pages, bytes.Equal), "%+v %+v", key, in)
		require.True(t, bytes.Equal(want.block.shared, got.block.shared), "%+v %+v", key, in)
		require.Equal(t, want.local, got.local, "%+v %+v", key, in)
	}
	require.Greater(t, done, accessRounds/10, "%+v: hardly any access without a fault", key)
}
