package lane

import (
	"math"
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
)

// The NaNs that the hardware gives.
const (
	nanF32 = 0x7fffffff
	nanF16 = 0x7fff
	infF32 = 0x7f800000
	infF16 = 0x7c00
)

// encodeF32 makes an f32 of sum·2^unit, towards zero; what is too large becomes infinite. A
// sum of zero is positive.
func encodeF32(sum int64, unit int32) uint32 {
	if sum == 0 {
		return 0
	}
	if unit > -100 { // a normal number, whose double is exact
		x := math.Float64bits(float64(sum) * math.Float64frombits(uint64(unit+1023)<<52))
		return math.Float32bits(float32(math.Float64frombits(x &^ (1<<29 - 1))))
	}
	sign := uint32(uint64(sum)>>32) & (1 << 31)
	m := uint64(max(sum, -sum))
	top := int32(bits.Len64(m)) - 1 + unit // exponent of the highest bit
	lowest := max(top, -126) - 23
	if n := lowest - unit; n >= 0 {
		m >>= min(n, 63)
	} else {
		m <<= -n
	}
	// The highest bit of a normal number adds one to the field of the exponent.
	return sign | (uint32(lowest+23+126)<<23 + uint32(m))
}

// encodeF16 makes an f16 of sum·2^unit, to nearest even.
func encodeF16(sum int64, unit int32) uint32 {
	if sum == 0 {
		return 0
	}
	sign := uint32(uint64(sum)>>48) & (1 << 15)
	m := uint64(max(sum, -sum))
	top := int32(bits.Len64(m)) - 1 + unit
	if top > 15 {
		return sign | infF16
	}
	lowest := max(top, -14) - 10
	switch n := lowest - unit; {
	case n > 62:
		m = 0
	case n > 0:
		half := uint64(1) << (n - 1)
		m = (m + half - 1 + m>>n&1) >> n
	default:
		m <<= -n
	}
	return sign | min(uint32(lowest+10+14)<<10+uint32(m), infF16)
}

// specialSum replaces the sum of an element by what infinities and NaNs make of it. C is
// what it was before.
func specialSum(t *ir.Tile, i, j, first, last int, c uint32, narrow bool) {
	var plus, minus, nan bool
	note := func(exp int32, negative bool) {
		switch {
		case exp >= nanExp:
			nan = true
		case exp >= infExp && negative:
			minus = true
		case exp >= infExp:
			plus = true
		}
	}
	if narrow {
		_, exp := f16Term(c)
		note(exp, c>>15 != 0)
	} else {
		_, exp := f32Term(c)
		note(exp, c>>31 != 0)
	}
	for k := first; k < last; k++ {
		ae, be := t.AExp[i][k], t.BExp[k][j]
		if ae < infExp && be < infExp {
			continue
		}
		nan = nan || ae == zeroExp || be == zeroExp
		note(max(ae, be), t.A[i][k]^t.B[k][j] < 0)
	}
	inf, nothing := uint32(infF32), uint32(nanF32)
	sign := uint32(1) << 31
	if narrow {
		inf, nothing, sign = infF16, nanF16, 1<<15
	}
	switch {
	case nan || plus && minus:
		t.C[i][j] = nothing
	case plus:
		t.C[i][j] = inf
	case minus:
		t.C[i][j] = inf | sign
	}
}
