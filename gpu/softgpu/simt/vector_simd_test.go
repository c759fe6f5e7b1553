//go:build goexperiment.simd && amd64

package simt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// SIMD loads and stores leave the registers, the memory and the fault that the
// portable ones leave.
func TestSIMDAccesses(t *testing.T) {
	needSIMD(t)
	for key, fn := range simdAccesses {
		in := inst{d: 0, align: uint8(key.size - 1)}
		testAccess(t, key, in, portableAccesses[key], fn)
		in.d = 1 // the register with the address
		testAccess(t, key, in, portableAccesses[key], fn)
	}
	for key, fn := range simdElements {
		testElements(t, key, portableElements[key], fn)
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
