package exectest

import (
	"math"
	"math/rand/v2"
	"os"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Edges32 and edges64 are what arithmetic gets wrong: zeros, subnormals,
// numbers around the smallest normal one, around powers of two, ties, the
// largest, infinities, NaNs with payloads, shift counts.
var (
	Edges32 = []uint32{
		0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffff,
		0x00800000, 0x00800001, 0x007fffff, 0x00ffffff, 0x3f800000, 0x3f7fffff, 0x3f800001, 0x3f000000, 0x40000000, 0x4b000001,
		0x4effffff, 0x4f000000, 0x4f7fffff, 0x4f800000, 0x5f000000, 0x7e7fffff, 0x7e800000, 0x7e800001, 0x7f7fffff, 0x7f800000,
		0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff, 0x1f800000, 0x20000000, 0x5a5a5a5a, 0x7ffffffe,
	}
	edges64 = []uint64{
		0, 1, 2, 31, 32, 63, 64, 65, 1<<32 - 1, 1 << 32, 1<<52 - 1, 1 << 52, 1<<52 + 1, 1<<53 - 1, 0x3ff0000000000000, 0x3fefffffffffffff,
		0x3ff0000000000001, 0x4330000000000001, 0x41dfffffffc00000, 0x41e0000000000000, 0x47efffffefffffff, 0x47efffffe0000000, 0x3810000000000000,
		0x380fffffffffffff, 0x36a0000000000000, 0x3690000000000000, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001, 0x7ff8000000000000,
		0x7ff80000dead0000, 0x7fffffffffffffff, 0x1ff0000000000000, 0x2000000000000000, 0x5a5a5a5a5a5a5a5a,
	}
)

func RandomLanes(r *rand.Rand, w *ir.Warp) {
	kind := r.IntN(4)
	for i := range w.R32 {
		for k := range w.R32[i] {
			switch {
			case kind < 2: // edges, of both signs
				w.R32[i][k] = Edges32[r.IntN(len(Edges32))] ^ r.Uint32()&(1<<31)
				w.R64[i][k] = edges64[r.IntN(len(edges64))] ^ r.Uint64()&(1<<63)
			case kind == 2: // any bits
				w.R32[i][k], w.R64[i][k] = r.Uint32(), r.Uint64()
			default: // numbers near one, whose results are ordinary
				w.R32[i][k] = math.Float32bits(r.Float32()*4 - 2)
				w.R64[i][k] = math.Float64bits(r.Float64()*4 - 2)
			}
		}
	}
	for i := range w.Pr {
		w.Pr[i] = r.Uint32()
	}
}

func FuzzWarp() *ir.Warp {
	return &ir.Warp{R32: make([][32]uint32, 5), R64: make([][32]uint64, 5), Pr: make([]uint32, 5), Mask: ir.AllLanes, Live: ir.AllLanes}
}

func Clone(w *ir.Warp) *ir.Warp {
	c := *w
	c.R32, c.R64, c.Pr = append([][32]uint32(nil), w.R32...), append([][32]uint64(nil), w.R64...), append([]uint32(nil), w.Pr...)
	return &c
}

// accessRounds is how many sets of addresses each load and store is tried on.
var accessRounds = Rounds(100, 300)

// Rounds is how often a test tries an operation on other values: some times, and all in make test-long.
func Rounds(some, all int) int {
	if os.Getenv("PVDRM_TEST_LONG") == "" {
		return some
	}
	return all
}

func EqualLanes(a, b *ir.Warp) bool {
	for i := range a.R32 {
		if a.R32[i] != b.R32[i] || a.R64[i] != b.R64[i] || a.Pr[i] != b.Pr[i] {
			return false
		}
	}
	return true
}

// Masks that hold nothing, all, one lane, halves, patterns and boundaries.
var Masks = []uint32{0, ir.AllLanes, 1, 1 << 31, 0xffff, 0xffff << 16, 0x55555555, 0xaaaaaaaa, 0x7fffffff, 0xfffffffe, 0xff, 0x00ff00ff, 0x0f0f0f0f}
