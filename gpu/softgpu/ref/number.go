package ref

import (
	"math/big"
	"math/bits"

	"pvdrm/gpu/ptx"
)

// kind is what a number is.
type kind uint8

const (
	zero kind = iota
	finite
	infinite
	notANumber
)

// number is a floating-point value whose exponent has no bounds: m·2^exp,
// negative if neg. Where a result has more bits than m, the lowest bit of m is
// set for all that is lost ("sticky"); there are always more than two bits
// between it and those that any format keeps, so every rounding is right.
type number struct {
	kind kind
	neg  bool
	m    wide // not 0 if finite
	exp  int
}

// wide is an integer of 128 bits.
type wide struct{ hi, lo uint64 }

// len is the number of bits that x needs.
func (x wide) len() int {
	if x.hi != 0 {
		return 64 + bits.Len64(x.hi)
	}
	return bits.Len64(x.lo)
}

func (x wide) shl(n int) wide {
	if n >= 64 {
		return wide{x.lo << (n - 64), 0}
	}
	return wide{x.hi<<n | x.lo>>(64-n), x.lo << n}
}

// shr shifts right and sets the lowest bit if it was one of those that are lost.
func (x wide) shr(n int) wide {
	if n >= 128 {
		return wide{0, bit(x != wide{})}
	}
	var r wide
	if n >= 64 {
		r = wide{0, x.hi >> (n - 64)}
	} else {
		r = wide{x.hi >> n, x.hi<<(64-n) | x.lo>>n}
	}
	r.lo |= bit(r.shl(n) != x)
	return r
}

func (x wide) add(y wide) wide {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	return wide{x.hi + y.hi + carry, lo}
}

func (x wide) sub(y wide) wide {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	return wide{x.hi - y.hi - borrow, lo}
}

func (x wide) less(y wide) bool { return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// fromInt is ±x.
func fromInt(x uint64, neg bool) number {
	if x == 0 {
		return number{}
	}
	return number{kind: finite, neg: neg, m: wide{0, x}}
}

func (x number) negate() number {
	x.neg = !x.neg
	return x
}

// add is x+y. A sum of zero is positive, but when rounding down.
func (x number) add(y number, mode ptx.Rounding) number {
	switch {
	case x.kind == notANumber || y.kind == notANumber || x.kind == infinite && y.kind == infinite && x.neg != y.neg:
		return number{kind: notANumber}
	case x.kind == infinite || y.kind == zero && x.kind != zero:
		return x
	case y.kind == infinite || x.kind == zero && y.kind != zero:
		return y
	case x.kind == zero && x.neg == y.neg:
		return x
	case x.kind == zero:
		return number{neg: mode == ptx.RM}
	}
	x, y = x.normal(), y.normal()
	if x.exp < y.exp || x.exp == y.exp && x.m.less(y.m) {
		x, y = y, x
	}
	small := y.m.shr(x.exp - y.exp)
	if x.neg == y.neg {
		x.m = x.m.add(small)
		return x
	}
	if x.m = x.m.sub(small); x.m == (wide{}) {
		return number{neg: mode == ptx.RM}
	}
	return x
}

// normal shifts the mantissa so that its highest bit is bit 126; a sum of two
// such mantissas does not overflow.
func (x number) normal() number {
	n := 127 - x.m.len()
	if n >= 0 {
		x.m = x.m.shl(n)
	} else {
		x.m = x.m.shr(-n)
	}
	x.exp -= n
	return x
}

// mul is x·y, of numbers with at most 64 bits.
func (x number) mul(y number) number {
	r := number{kind: finite, neg: x.neg != y.neg, exp: x.exp + y.exp}
	switch {
	case x.kind == notANumber || y.kind == notANumber || x.kind == infinite && y.kind == zero || x.kind == zero && y.kind == infinite:
		r.kind = notANumber
	case x.kind == infinite || y.kind == infinite:
		r.kind = infinite
	case x.kind == zero || y.kind == zero:
		r.kind = zero
	default:
		r.m.hi, r.m.lo = bits.Mul64(x.m.lo, y.m.lo)
	}
	return r
}

// div is x/y, of numbers with at most 64 bits.
func (x number) div(y number) number {
	r := number{kind: finite, neg: x.neg != y.neg}
	switch {
	case x.kind == notANumber || y.kind == notANumber || x.kind == infinite && y.kind == infinite || x.kind == zero && y.kind == zero:
		r.kind = notANumber
	case x.kind == infinite || y.kind == zero:
		r.kind = infinite
	case x.kind == zero || y.kind == infinite:
		r.kind = zero
	default:
		// With the highest bit of both at 63, the quotient of x·2^63 has 63 or 64 bits.
		n, d := bits.LeadingZeros64(x.m.lo), bits.LeadingZeros64(y.m.lo)
		a, b := x.m.lo<<n, y.m.lo<<d
		q, rest := bits.Div64(a>>1, a<<63, b)
		r.m.lo = q | bit(rest != 0)
		r.exp = x.exp - n - (y.exp - d) - 63
	}
	return r
}

// sqrt is the square root of a number with at most 64 bits.
func (x number) sqrt() number {
	switch {
	case x.kind == zero || x.kind == notANumber || x.kind == infinite && !x.neg:
		return x
	case x.neg:
		return number{kind: notANumber}
	}
	// The root of an integer of 126 bits and more has 63 bits and more.
	n := 127 - x.m.len()
	if (x.exp-n)%2 != 0 {
		n--
	}
	square := new(big.Int).Lsh(new(big.Int).SetUint64(x.m.lo), uint(n))
	root := new(big.Int).Sqrt(square)
	exactly := new(big.Int).Mul(root, root).Cmp(square) == 0
	return number{kind: finite, m: wide{0, root.Uint64() | bit(!exactly)}, exp: (x.exp - n) / 2}
}

// roundAt rounds |x|, which is finite, to a multiple of 2^q and returns how many
// of them that are.
func (x number) roundAt(q int, mode ptx.Rounding) wide {
	// Two bits more than are kept: the half and what lies below it.
	var m wide
	if n := q - 2 - x.exp; n >= 0 {
		m = x.m.shr(n)
	} else {
		m = x.m.shl(-n)
	}
	kept, rest := wide{m.hi >> 2, m.hi<<62 | m.lo>>2}, m.lo&3
	up := false
	switch mode {
	case ptx.RoundNone, ptx.RN, ptx.RNI:
		up = rest == 3 || rest == 2 && kept.lo&1 == 1
	case ptx.RNA:
		up = rest >= 2
	case ptx.RM, ptx.RMI:
		up = rest != 0 && x.neg
	case ptx.RP, ptx.RPI:
		up = rest != 0 && !x.neg
	}
	return kept.add(wide{0, bit(up)})
}

// integral rounds x to an integer.
func (x number) integral(mode ptx.Rounding) number {
	if x.kind != finite || x.exp >= 0 {
		return x
	}
	x.m, x.exp = x.roundAt(0, mode), 0
	if x.m == (wide{}) {
		x.kind = zero
	}
	return x
}

// format is a binary format of IEEE 754's kind.
type format struct {
	fraction, exponent int // bits of each

	// finite: the highest exponent has numbers as the others do. All bits but the
	// sign set are NaN, and nothing is infinite.
	finite bool

	// closed: neither NaN nor infinities.
	closed bool
}

var (
	half     = format{fraction: 10, exponent: 5}
	bfloat   = format{fraction: 7, exponent: 8}
	single   = format{fraction: 23, exponent: 8}
	double   = format{fraction: 52, exponent: 11}
	tensor32 = format{fraction: 10, exponent: 8}
	e4m3     = format{fraction: 3, exponent: 4, finite: true}
	e5m2     = format{fraction: 2, exponent: 5}
	e2m3     = format{fraction: 3, exponent: 2, closed: true}
	e3m2     = format{fraction: 2, exponent: 3, closed: true}
	e2m1     = format{fraction: 1, exponent: 2, closed: true}
)

// formatOf is the format of a type, or of the elements of a packed one.
func formatOf(t ptx.Type) format {
	switch t {
	case ptx.F16, ptx.F16x2:
		return half
	case ptx.BF16, ptx.BF16x2:
		return bfloat
	case ptx.F64:
		return double
	case ptx.E4M3x2:
		return e4m3
	case ptx.E5M2x2:
		return e5m2
	case ptx.E2M3x2:
		return e2m3
	case ptx.E3M2x2:
		return e3m2
	case ptx.E2M1x2:
		return e2m1
	}
	return single
}

func (f format) sign() uint64 { return 1 << (f.fraction + f.exponent) }
func (f format) one() uint64  { return (1<<(f.exponent-1) - 1) << f.fraction }

// infinity is the least value that is beyond all numbers: where there are no
// infinities, NaN.
func (f format) infinity() uint64 {
	if f.finite {
		return f.sign() - 1
	}
	if f.closed {
		return f.sign()
	}
	return (1<<f.exponent - 1) << f.fraction
}

// least is the exponent of the smallest normal number.
func (f format) least() int { return 2 - 1<<(f.exponent-1) }

func (f format) isNaN(x uint64) bool       { return x&^f.sign() > f.infinity() }
func (f format) isSubnormal(x uint64) bool { return x&f.infinity() == 0 }

// flush replaces a subnormal by zero of the same sign.
func (f format) flush(x uint64) uint64 {
	if f.isSubnormal(x) {
		return x & f.sign()
	}
	return x
}

// decode reads a value.
func (f format) decode(x uint64) number {
	n := number{kind: finite, neg: x&f.sign() != 0}
	fraction, exp := x&(1<<f.fraction-1), int(x>>f.fraction)&(1<<f.exponent-1)
	n.m.lo, n.exp = fraction, exp-1+f.least()-f.fraction
	switch size := x &^ f.sign(); {
	case size > f.infinity() || f.finite && size == f.infinity():
		n.kind = notANumber
	case size == f.infinity():
		n.kind = infinite
	case exp == 0 && fraction == 0:
		n.kind = zero
	case exp == 0:
		n.exp++
	default:
		n.m.lo |= 1 << f.fraction
	}
	return n
}

// encode rounds a value. NaN becomes the one with all bits but the sign set.
func (f format) encode(x number, mode ptx.Rounding) uint64 {
	var sign uint64
	if x.neg {
		sign = f.sign()
	}
	switch x.kind {
	case notANumber:
		return f.sign() - 1
	case infinite:
		return sign | f.infinity()
	case zero:
		return sign
	}
	top := x.exp + x.m.len() - 1 // exponent of the highest bit
	lowest := max(top, f.least()) - f.fraction
	var r uint64
	if top > 1<<(f.exponent-1) {
		r = f.infinity()
	} else {
		// The highest bit of the mantissa adds one to the exponent field.
		r = x.roundAt(lowest, mode).lo + uint64(lowest+f.fraction-f.least())<<f.fraction
	}
	if r >= f.infinity() { // too large: infinity, or the largest number where rounding goes towards zero
		r = f.infinity()
		if mode == ptx.RZ || mode == ptx.RM && !x.neg || mode == ptx.RP && x.neg {
			r--
		}
	}
	return sign | r
}

// encodeFlushed is encode for .ftz: what is below the smallest normal number
// after rounding to the format's precision, with any exponent, becomes zero.
func (f format) encodeFlushed(x number, mode ptx.Rounding) uint64 {
	if x.kind == finite {
		top := x.exp + x.m.len() - 1
		if top < f.least()-1 || top == f.least()-1 && x.roundAt(top-f.fraction, mode).len() == f.fraction+1 {
			x.kind = zero
		}
	}
	return f.encode(x, mode)
}

// saturate clamps to [0, 1]; NaN becomes 0.
func (f format) saturate(x uint64) uint64 {
	switch {
	case f.isNaN(x) || x&f.sign() != 0:
		return 0
	}
	return min(x, f.one())
}

// satFinite makes infinities, which rounding may have made, the largest number
// of that sign.
func (f format) satFinite(x uint64) uint64 {
	if x&^f.sign() == f.infinity() {
		return x - 1
	}
	return x
}

// relu makes negative numbers zero; NaN stays.
func (f format) relu(x uint64) uint64 {
	if !f.isNaN(x) && x&f.sign() != 0 {
		return 0
	}
	return x
}
