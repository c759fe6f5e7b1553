//go:build goexperiment.simd && amd64

package lane

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// SIMD loads and stores leave the registers, the memory and the fault that the
// portable ones leave.
func TestSIMDAccesses(t *testing.T) {
	exectest.NeedSIMD(t)
	for key, fn := range simdAccesses {
		in := ir.Inst{D: 0, Align: uint8(key.Size - 1)}
		exectest.TestAccess(t, key, in, portableAccesses[key], fn)
		in.D = 1 // the register with the address
		exectest.TestAccess(t, key, in, portableAccesses[key], fn)
	}
	for key, fn := range simdElements {
		exectest.TestElements(t, key, portableElements[key], fn)
	}
}

// Shapes are found, so that the vector paths are taken.
func TestShape(t *testing.T) {
	exectest.NeedSIMD(t)
	for _, size := range []uint64{4, 8} {
		for _, c := range []struct {
			name string
			at   func(i uint64) uint64
			want shape
		}{
			{name: "row", at: func(i uint64) uint64 { return 1<<40 + i*size }, want: rows},
			{name: "two rows", at: func(i uint64) uint64 { return i/16*1000 + i%16*size }, want: rows},
			{name: "one word", at: func(i uint64) uint64 { return 1 << 33 }, want: same},
			{name: "four words", at: func(i uint64) uint64 { return i / 8 * 77 }, want: same},
			{name: "columns", at: func(i uint64) uint64 { return i * 4096 }, want: scattered},
			{name: "half words", at: func(i uint64) uint64 { return i * size / 2 }, want: scattered},
			{name: "rows of 4", at: func(i uint64) uint64 { return i/4*1000 + i%4*size }, want: scattered},
			{name: "last lane", at: func(i uint64) uint64 { return i*size + i/31 }, want: scattered},
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
