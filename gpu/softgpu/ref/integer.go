package ref

import (
	"math"
	"math/big"
	"math/bits"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// mixedInteger runs an integer instruction whose operands may differ in type.
func (t *thread) mixedInteger(i *ptx.Instr) {
	ty, d := i.Mods.Type(), &i.Args[0]
	at := func(n int, ty ptx.Type) uint64 { return t.get(&i.Args[n], ty) }
	switch {
	case (i.Op == ptx.OpMul || i.Op == ptx.OpMad) && i.Mods.Mode == ptx.ModeWide:
		// Operands have at most 32 bits, so the product is exact.
		x := uint64(extend(at(1, ty), ty) * extend(at(2, ty), ty))
		twice := map[ptx.Type]ptx.Type{ptx.U16: ptx.U32, ptx.S16: ptx.S32, ptx.U32: ptx.U64, ptx.S32: ptx.S64}[ty]
		if i.Op == ptx.OpMad {
			x += at(3, twice)
		}
		t.set(d, x, twice)
	case i.Op == ptx.OpPopc:
		t.set(d, uint64(bits.OnesCount64(at(1, ty))), ptx.U32)
	case i.Op == ptx.OpClz:
		t.set(d, uint64(ty.Bits()-bits.Len64(at(1, ty))), ptx.U32)
	case i.Op == ptx.OpBfind:
		t.set(d, bfind(at(1, ty), ty, i.Mods.Has(ptx.ShiftAmt)), ptx.U32)
	case i.Op == ptx.OpBrev:
		t.set(d, bits.Reverse64(at(1, ty))>>(64-ty.Bits()), ty)
	case i.Op == ptx.OpFns:
		t.set(d, fns(at(1, ty), at(2, ptx.U32), t.signed(&i.Args[3], ptx.S32)), ty)
	case i.Op == ptx.OpBfe:
		t.set(d, bfe(at(1, ty), at(2, ptx.U32), at(3, ptx.U32), ty), ty)
	case i.Op == ptx.OpBfi:
		t.set(d, bfi(at(1, ty), at(2, ty), at(3, ptx.U32), at(4, ptx.U32), ty), ty)
	case i.Op == ptx.OpSzext:
		t.set(d, szext(at(1, ty), at(2, ptx.U32), ty, i.Mods.Mode), ty)
	case i.Op == ptx.OpBmsk:
		t.set(d, bmsk(at(1, ptx.U32), at(2, ptx.U32), i.Mods.Mode), ty)
	case i.Op == ptx.OpDp4a || i.Op == ptx.OpDp2a:
		t.set(d, dot(i, at(1, ptx.B32), at(2, ptx.B32), at(3, ptx.B32)), ptx.B32)
	default:
		t.set(d, t.integer(i, ty, t.values(i, ty)), ty)
	}
}

// integer computes instructions of one type (9.7.1). What the result has more
// bits than ty does not count.
func (t *thread) integer(i *ptx.Instr, ty ptx.Type, v [4]uint64) uint64 {
	a, b, c := v[0], v[1], v[2]
	x, y, z := extend(a, ty), extend(b, ty), extend(c, ty)
	var r uint64
	switch i.Op {
	case ptx.OpAdd:
		r = a + b
		if i.Mods.Has(ptx.Sat) {
			r = saturate(x+y, ty)
		}
	case ptx.OpSub:
		r = a - b
		if i.Mods.Has(ptx.Sat) {
			r = saturate(x-y, ty)
		}
	case ptx.OpMul, ptx.OpMad:
		if i.Mods.Mode == ptx.ModeLo {
			return a*b + c
		}
		high := productHigh(a, b, ty)
		if i.Mods.Has(ptx.Sat) {
			return saturate(extend(high, ty)+z, ty)
		}
		return high + c
	case ptx.OpMul24, ptx.OpMad24:
		part := int64(1<<24 - 1)
		p := (x & part) * (y & part)
		if ty.Signed() {
			p = (x << 40 >> 40) * (y << 40 >> 40)
		}
		if i.Mods.Mode == ptx.ModeHi {
			p >>= 16
		}
		if i.Mods.Has(ptx.Sat) {
			return saturate(int64(int32(p))+z, ty)
		}
		return uint64(p) + c
	case ptx.OpDiv, ptx.OpRem:
		return divide(i.Op, a, b, ty)
	case ptx.OpSad:
		if compare(ptx.CmpLT, ty, a, b) {
			a, b = b, a
		}
		return a - b + c
	case ptx.OpAbs:
		return uint64(max(x, -x)) // the least number has none and stays
	case ptx.OpNeg:
		return -a
	case ptx.OpMin, ptx.OpMax:
		r = a
		if compare(ptx.CmpLT, ty, b, a) == (i.Op == ptx.OpMin) {
			r = b
		}
	default:
		t.unknown(i)
	}
	if i.Mods.Has(ptx.Relu) && extend(r, ty) < 0 {
		return 0
	}
	return r
}

// unknown ends the kernel: the table of instructions has one that the
// interpreter has not.
func (t *thread) unknown(i *ptx.Instr) {
	t.fail(gpu.LostInstruction, "the reference interpreter does not have "+i.Name())
}

// saturate brings x into the range of ty, which has at most 32 bits.
func saturate(x int64, ty ptx.Type) uint64 {
	lo, hi := int64(0), int64(1)<<ty.Bits()-1
	if ty.Signed() {
		lo, hi = -1<<(ty.Bits()-1), 1<<(ty.Bits()-1)-1
	}
	return uint64(max(lo, min(x, hi)))
}

// productHigh is the upper half of a·b.
func productHigh(a, b uint64, ty ptx.Type) uint64 {
	x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
	if ty.Signed() {
		x.SetInt64(extend(a, ty))
		y.SetInt64(extend(b, ty))
	}
	high := x.Rsh(x.Mul(x, y), uint(ty.Bits())) // rounds down
	if high.Sign() < 0 {
		return -new(big.Int).Neg(high).Uint64()
	}
	return high.Uint64()
}

// divide is div and rem. Division by zero gives all ones, as the hardware does.
func divide(op ptx.Op, a, b uint64, ty ptx.Type) uint64 {
	switch {
	case b == 0:
		return math.MaxUint64
	case ty.Signed() && op == ptx.OpDiv:
		return uint64(extend(a, ty) / extend(b, ty))
	case ty.Signed():
		return uint64(extend(a, ty) % extend(b, ty))
	case op == ptx.OpDiv:
		return a / b
	}
	return a % b
}

// bfind is the highest bit that differs from the sign, or all ones.
func bfind(a uint64, ty ptx.Type, shift bool) uint64 {
	if x := extend(a, ty); ty.Signed() && x < 0 {
		a = uint64(^x)
	}
	switch pos := bits.Len64(a) - 1; {
	case pos < 0:
		return math.MaxUint32
	case shift:
		return uint64(ty.Bits() - 1 - pos)
	default:
		return uint64(pos)
	}
}

// fns finds the n-th bit that is set, upwards from base or, with a negative n,
// downwards.
func fns(mask, base uint64, n int64) uint64 {
	const none = math.MaxUint32
	switch {
	case base > 31:
		return none
	case n == 0 && mask>>base&1 == 1:
		return base
	case n == 0:
		return none
	}
	step := int64(1)
	if n < 0 {
		step, n = -1, -n
	}
	for pos := int64(base); pos >= 0 && pos < 32; pos += step {
		if mask>>pos&1 == 1 {
			if n--; n == 0 {
				return uint64(pos)
			}
		}
	}
	return none
}

// bfe takes n bits from pos on. Beyond the highest bit of a there are zeros or,
// in a signed one, its sign; the sign of what is taken is that of its last bit.
func bfe(a, pos, n uint64, ty ptx.Type) uint64 {
	if ty.Bits() == 32 {
		pos, n = pos&0xff, n&0xff
	}
	top := uint64(ty.Bits() - 1)
	fill := uint64(0)
	if ty.Signed() && n > 0 {
		fill = a >> min(pos+n-1, top) & 1
	}
	r := uint64(0)
	for k := range top + 1 {
		from := fill
		if k < n && pos+k <= top {
			from = a >> (pos + k) & 1
		}
		r |= from << k
	}
	return r
}

// bfi replaces n bits of b from pos on by the lowest of a.
func bfi(a, b, pos, n uint64, ty ptx.Type) uint64 {
	if ty.Bits() == 32 {
		pos, n = pos&0xff, n&0xff
	}
	for k := uint64(0); k < n && pos+k < uint64(ty.Bits()); k++ {
		b = b&^(1<<(pos+k)) | a>>k&1<<(pos+k)
	}
	return b
}

// szext keeps n bits and extends them by zeros or by the last of them.
func szext(a, n uint64, ty ptx.Type, mode ptx.Mode) uint64 {
	if mode == ptx.ModeWrap {
		n &= 31
	}
	switch {
	case n >= 32:
		return a
	case n == 0:
		return 0
	case ty.Signed():
		return uint64(int64(a<<(64-n)) >> (64 - n))
	}
	return a & (1<<n - 1)
}

// bmsk is n ones from pos on.
func bmsk(pos, n uint64, mode ptx.Mode) uint64 {
	if mode == ptx.ModeWrap {
		pos, n = pos&31, n&31
	}
	r := uint64(0)
	for k := pos; k < 32 && k-pos < n; k++ {
		r |= 1 << k
	}
	return r
}

// dot is dp4a, which multiplies the bytes of a and b, and dp2a, which takes the
// halves of a and the lower or upper two bytes of b.
func dot(i *ptx.Instr, a, b, c uint64) uint64 {
	part := func(x uint64, n, width int, signed bool) int64 {
		x = x >> (n * width) & (1<<width - 1)
		if signed && x>>(width-1) == 1 {
			return int64(x) - 1<<width
		}
		return int64(x)
	}
	signA, signB := i.Mods.Types[0].Signed(), i.Mods.Types[1].Signed()
	r := int64(c)
	if i.Op == ptx.OpDp4a {
		for n := range 4 {
			r += part(a, n, 8, signA) * part(b, n, 8, signB)
		}
		return uint64(r)
	}
	first := 0
	if i.Mods.Mode == ptx.ModeHi {
		first = 2
	}
	for n := range 2 {
		r += part(a, n, 16, signA) * part(b, first+n, 8, signB)
	}
	return uint64(r)
}

// extended is add, sub and mad with a carry (9.7.2). A borrow is a carry that is
// not set, as in the hardware, which adds the complement.
func (t *thread) extended(i *ptx.Instr) {
	ty := i.Mods.Type()
	v := t.values(i, ty)
	a, b := v[0], v[1]
	in := uint64(0)
	switch i.Op {
	case ptx.OpMad, ptx.OpMadc:
		if a, b = v[0]*v[1]&mask(ty), v[2]; i.Mods.Mode == ptx.ModeHi {
			a = productHigh(v[0], v[1], ty) & mask(ty)
		}
	case ptx.OpSub:
		b, in = ^b&mask(ty), 1
	case ptx.OpSubc:
		b = ^b & mask(ty)
	}
	if i.Op == ptx.OpAddc || i.Op == ptx.OpSubc || i.Op == ptx.OpMadc {
		in = bit(t.carry)
	}
	sum, carry := bits.Add64(a, b, in)
	if ty.Bits() == 32 {
		carry = sum >> 32
	}
	t.set(&i.Args[0], sum, ty)
	if i.Mods.Has(ptx.CC) {
		t.carry = carry == 1
	}
}

// logic is 9.7.7.
func (t *thread) logic(i *ptx.Instr) {
	ty := i.Mods.Type()
	a := t.get(&i.Args[1], ty)
	at := func(n int, ty ptx.Type) uint64 { return t.get(&i.Args[n], ty) }
	d, _ := pair(&i.Args[0])
	switch i.Op {
	case ptx.OpAnd:
		t.set(d, a&at(2, ty), ty)
	case ptx.OpOr:
		t.set(d, a|at(2, ty), ty)
	case ptx.OpXor:
		t.set(d, a^at(2, ty), ty)
	case ptx.OpNot:
		t.set(d, ^a&mask(ty), ty)
	case ptx.OpCnot:
		t.set(d, bit(a == 0), ty)
	case ptx.OpShl:
		t.set(d, a<<at(2, ptx.U32), ty)
	case ptx.OpShr:
		if n := at(2, ptx.U32); ty.Signed() {
			t.set(d, uint64(extend(a, ty)>>n), ty)
		} else {
			t.set(d, a>>n, ty)
		}
	case ptx.OpShf:
		n := at(3, ptx.U32)
		if i.Mods.Has(ptx.Wrap) {
			n &= 31
		}
		n = min(n, 32)
		both := at(2, ty)<<32 | a
		if i.Mods.Mode == ptx.ModeLeft {
			t.set(d, both<<n>>32, ty)
		} else {
			t.set(d, both>>n, ty)
		}
	case ptx.OpLop3:
		t.lop3(i)
	}
}

// lop3 looks up each bit in a table; the long form also combines "the result
// is not zero" with a predicate.
func (t *thread) lop3(i *ptx.Instr) {
	v := t.values(i, ptx.B32)
	r := uint64(0)
	for k := range 32 {
		n := v[0]>>k&1<<2 | v[1]>>k&1<<1 | v[2]>>k&1
		r |= v[3] >> n & 1 << k
	}
	if i.Mods.Bool == ptx.BoolNone {
		t.set(&i.Args[0], r, ptx.B32)
		return
	}
	d, p := pair(&i.Args[0])
	q := t.get(&i.Args[5], ptx.Pred)
	t.set(d, r, ptx.B32)
	t.set(p, combine(i.Mods.Bool, bit(r != 0), q), ptx.Pred)
}

// prmt picks bytes. The modes are fixed selections that c chooses among.
func (t *thread) prmt(i *ptx.Instr) {
	v := t.values(i, ptx.B32)
	all, selection := v[0]|v[1]<<32, v[2]
	fixed := map[ptx.Mode][4]uint64{
		ptx.ModeF4E: {0x3210, 0x4321, 0x5432, 0x6543}, ptx.ModeB4E: {0x5670, 0x6701, 0x7012, 0x0123},
		ptx.ModeRC8: {0x0000, 0x1111, 0x2222, 0x3333}, ptx.ModeECL: {0x3210, 0x3211, 0x3222, 0x3333},
		ptx.ModeECR: {0x0000, 0x1110, 0x2210, 0x3210}, ptx.ModeRC16: {0x1010, 0x3232, 0x1010, 0x3232},
	}
	if f, ok := fixed[i.Mods.Mode]; ok {
		selection = f[selection&3]
	}
	r := uint64(0)
	for n := range 4 {
		s := selection >> (4 * n) & 15
		b := all >> (8 * (s & 7)) & 0xff
		if s&8 != 0 { // the sign of the byte, eight times
			b = 0xff * (b >> 7)
		}
		r |= b << (8 * n)
	}
	t.set(&i.Args[0], r, ptx.B32)
}
