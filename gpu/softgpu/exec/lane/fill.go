package lane

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// Fill sets the lanes in mask to v; lanes beyond live do not matter.
func Fill[T uint32 | uint64](d *[32]T, v T, mask, live uint32) {
	if mask == live {
		fillLanes(d, v)
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		d[bits.TrailingZeros32(m)&31] = v
	}
}

// fill32 and fill64 are FillEach, or its SIMD twin.
var fill32, fill64 = FillEach[uint32], FillEach[uint64]

// FillEach gives all lanes the value v.
func FillEach[T uint32 | uint64](d *[32]T, v T) {
	for i := range d {
		d[i] = v
	}
}

// CopyLanes copies the lanes in mask; lanes beyond live do not matter.
func CopyLanes(d, s *[32]uint32, mask, live uint32) {
	if mask == live {
		*d = *s
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		d[i] = s[i]
	}
}

// blend32 and blend64 are blend, or its SIMD twin.
var blend32, blend64 = blend[uint32], blend[uint64]

// blend gives the lanes that are not in mask their old values back.
func blend[T uint32 | uint64](d, old *[32]T, mask uint32) {
	for i := 0; i < 32; i += 4 {
		d[i] ^= (d[i] ^ old[i]) & (T(mask&1) - 1)
		d[i+1] ^= (d[i+1] ^ old[i+1]) & (T(mask>>1&1) - 1)
		d[i+2] ^= (d[i+2] ^ old[i+2]) & (T(mask>>2&1) - 1)
		d[i+3] ^= (d[i+3] ^ old[i+3]) & (T(mask>>3&1) - 1)
		mask >>= 4
	}
}

// Differing returns the lanes whose value is not x.
func Differing[T uint32 | uint64](row *[32]T, x T) (m uint32) {
	differ := T(0)
	for i := range row {
		differ |= row[i] ^ x
	}
	if differ == 0 {
		return 0
	}
	for i := range row {
		m |= scalar.Bit(row[i] != x) << i
	}
	return m
}
