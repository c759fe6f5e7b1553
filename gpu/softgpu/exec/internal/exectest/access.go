package exectest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// TestElements is TestAccess for vectors of 4 and of 2.
func TestElements(t *testing.T, key ir.AccessKey, want, got ir.Func) {
	t.Helper()
	in := ir.Inst{D: 0, B: 2, C: 3, E: 4, Align: uint8(4*key.Size - 1)}
	TestAccess(t, key, in, want, got)
	in = ir.Inst{D: 0, B: 2, C: ir.NoReg, E: ir.NoReg, Align: uint8(2*key.Size - 1)}
	TestAccess(t, key, in, want, got)
}

// accessWarp is a warp that can access memory: pages of 4 KiB, of which the
// last is read only and what follows is not mapped.
func accessWarp() (*ir.Warp, *Memory) {
	m := NewMemory(4096)
	m.Map(BufA, 3*4096)
	m.Prot[BufA+2*4096] = gpu.ProtRead
	for at := uint64(BufA); at < BufA+3*4096; at += 4096 {
		fillPattern(m.Pages[at], int(at>>12))
	}
	w := FuzzWarp()
	w.Block = &ir.Block{Prog: &ir.Program{}, Fn: &ir.Function{}, Shared: tlb.WordBytes(make([]uint64, 512))}
	w.Block.Window = tlb.WindowTo(w.Block.Shared)
	fillPattern(w.Block.Shared, 5)
	w.Local = make([][32]uint32, 16)
	w.Worker = &ir.Worker{}
	w.Worker.TLB.Open(m, "")
	return w, m
}

// fillPattern gives neighbouring words different bytes.
func fillPattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// access runs fn and returns the fault it meets, or nil.
func access(fn ir.Func, w *ir.Warp, in *ir.Inst) (fault any) {
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

// TestAccess compares two functions for accesses of in.align+1 bytes, or more
// bytes than the alignment, with the address in register 1.
func TestAccess(t *testing.T, key ir.AccessKey, in ir.Inst, correct, tested ir.Func) {
	t.Helper()
	require.NotNil(t, correct)
	r := rand.New(rand.NewPCG(5, uint64(key.Size)))
	done, size := 0, uint64(in.Align)+1
	for n := range accessRounds {
		want, wantMem := accessWarp()
		got, gotMem := accessWarp()
		RandomLanes(r, want)
		in := in
		in.A, in.Imm = 1, r.Uint64N(3)*size
		base := uint64(BufA)
		in.Space = []ir.Space{ir.SpaceGlobal, ir.SpaceGlobal, ir.SpaceGeneric, ir.SpaceShared, ir.SpaceLocal}[r.IntN(5)]
		if !key.Wide { // global addresses are always wide
			in.Space = []ir.Space{ir.SpaceShared, ir.SpaceShared, ir.SpaceLocal}[r.IntN(3)]
		}
		if in.Space == ir.SpaceShared || in.Space == ir.SpaceLocal {
			base = 0
		} else if in.Space == ir.SpaceGeneric && r.IntN(2) == 0 {
			base = []uint64{tlb.SharedBase, tlb.LocalBase}[r.IntN(2)]
		}
		for i, x := range addresses(r, base-in.Imm, size) {
			want.R64[1][i], want.R32[1][i] = x, uint32(x)
		}
		if r.IntN(8) == 0 {
			in.Align = 15
		}
		want.Mask = ir.AllLanes
		if n%4 == 0 {
			want.Mask = Masks[1+r.IntN(len(Masks)-1)]
		}
		c := Clone(want)
		got.R32, got.R64, got.Pr, got.Mask = c.R32, c.R64, c.Pr, c.Mask

		wantFault, gotFault := access(correct, want, &in), access(tested, got, &in)
		require.Equal(t, wantFault, gotFault, "%+v %+v", key, in)
		if wantFault == nil {
			done++
		} else {
			require.IsType(t, &gpu.LostError{}, wantFault, "%v", wantFault)
		}
		require.True(t, EqualLanes(want, got), "%+v %+v", key, in)
		require.True(t, maps.EqualFunc(wantMem.Pages, gotMem.Pages, bytes.Equal), "%+v %+v", key, in)
		require.True(t, bytes.Equal(want.Block.Shared, got.Block.Shared), "%+v %+v", key, in)
		require.Equal(t, want.Local, got.Local, "%+v %+v", key, in)
	}
	require.Greater(t, done, accessRounds/10, "%+v: hardly any access without a fault", key)
}
