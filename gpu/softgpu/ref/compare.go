package ref

import "pvdrm/gpu/ptx"

// compare compares two values of a type (section 9.3.1).
func compare(cmp ptx.Cmp, ty ptx.Type, a, b uint64) bool {
	if ty.Float() {
		f := formatOf(ty)
		return compareFloats(cmp, f.value(a), f.value(b))
	}
	less, equal := a < b, a == b
	if ty.Signed() {
		less = extend(a, ty) < extend(b, ty)
	}
	switch cmp {
	case ptx.CmpEQ:
		return equal
	case ptx.CmpNE:
		return !equal
	case ptx.CmpLT, ptx.CmpLO:
		return less
	case ptx.CmpLE, ptx.CmpLS:
		return less || equal
	case ptx.CmpGT, ptx.CmpHI:
		return !less && !equal
	}
	return !less // ge, hs
}

// compareFloats compares numbers. With a NaN the plain comparisons are false and
// those that end in u true.
func compareFloats(cmp ptx.Cmp, a, b float64) bool {
	nan := a != a || b != b
	switch cmp {
	case ptx.CmpNUM:
		return !nan
	case ptx.CmpNAN:
		return nan
	case ptx.CmpEQ, ptx.CmpEQU:
		return a == b || nan && cmp == ptx.CmpEQU
	case ptx.CmpNE, ptx.CmpNEU:
		return a != b && !nan || nan && cmp == ptx.CmpNEU
	case ptx.CmpLT, ptx.CmpLTU:
		return a < b || nan && cmp == ptx.CmpLTU
	case ptx.CmpLE, ptx.CmpLEU:
		return a <= b || nan && cmp == ptx.CmpLEU
	case ptx.CmpGT, ptx.CmpGTU:
		return a > b || nan && cmp == ptx.CmpGTU
	}
	return a >= b || nan && cmp == ptx.CmpGEU
}

// combine is the boolean operator of setp and set.
func combine(op ptx.Bool, a, b uint64) uint64 {
	switch op {
	case ptx.BoolAnd:
		return a & b
	case ptx.BoolOr:
		return a | b
	case ptx.BoolXor:
		return a ^ b
	}
	return a
}

// compared compares operands 1 and 2, of the lower or upper half if they are
// packed.
func (t *thread) compared(i *ptx.Instr, ty ptx.Type, upper bool) bool {
	a, b := t.get(&i.Args[1], ty), t.get(&i.Args[2], ty)
	if part := packed[ty]; part != ptx.TypeNone {
		if ty = part; upper {
			a, b = a>>16, b>>16
		}
		a, b = a&0xffff, b&0xffff
	}
	if f := formatOf(ty); i.Mods.Has(ptx.FTZ) && ty.Float() {
		a, b = f.flush(a), f.flush(b)
	}
	return compare(i.Mods.Cmp, ty, a, b)
}

// third is the predicate that a comparison is combined with, if there is one.
func (t *thread) third(i *ptx.Instr) uint64 {
	if i.Mods.Bool == ptx.BoolNone {
		return 0
	}
	return t.get(&i.Args[3], ptx.Pred)
}

// setp sets p to the comparison and q to its complement, each combined with the
// third operand; of packed operands, p and q are the halves.
func (t *thread) setp(i *ptx.Instr) {
	ty, op := i.Mods.Type(), i.Mods.Bool
	p, q := pair(&i.Args[0])
	c := t.third(i)
	yes := bit(t.compared(i, ty, false))
	no := 1 - yes
	if packed[ty] != ptx.TypeNone {
		no = bit(t.compared(i, ty, true))
	}
	t.set(p, combine(op, yes, c), ptx.Pred)
	t.set(q, combine(op, no, c), ptx.Pred)
}

// setValue is set: all ones or 1.0 where the comparison holds, else 0.
func (t *thread) setValue(i *ptx.Instr) {
	to, ty, op := i.Mods.Types[0], i.Mods.Types[1], i.Mods.Bool
	c := t.third(i)
	one := mask(to)
	if to.Float() {
		one = formatOf(to).one()
	}
	x := one * combine(op, bit(t.compared(i, ty, false)), c)
	if packed[ty] != ptx.TypeNone {
		one &= 0xffff
		x = x&0xffff | one*combine(op, bit(t.compared(i, ty, true)), c)<<16
	}
	t.set(&i.Args[0], x, to)
}

// testp looks at the kind of a number.
func (t *thread) testp(i *ptx.Instr) {
	ty := i.Mods.Type()
	f, a := formatOf(ty), t.get(&i.Args[1], ty)
	n := f.decode(a)
	var is bool
	switch i.Mods.Mode {
	case ptx.ModeFinite:
		is = n.kind == finite || n.kind == zero
	case ptx.ModeInfinite:
		is = n.kind == infinite
	case ptx.ModeNumber:
		is = n.kind != notANumber
	case ptx.ModeNotANumber:
		is = n.kind == notANumber
	case ptx.ModeNormal:
		is = n.kind == zero || n.kind == finite && !f.isSubnormal(a)
	case ptx.ModeSubnormal:
		is = n.kind == finite && f.isSubnormal(a)
	}
	t.set(&i.Args[0], bit(is), ptx.Pred)
}

// slct chooses a where c is not negative; a NaN chooses b.
func (t *thread) slct(i *ptx.Instr) {
	ty, by := i.Mods.Types[0], i.Mods.Types[1]
	c := t.get(&i.Args[3], by)
	if i.Mods.Has(ptx.FTZ) {
		c = single.flush(c)
	}
	n := 2
	if compare(ptx.CmpGE, by, c, 0) {
		n = 1
	}
	t.set(&i.Args[0], t.get(&i.Args[n], ty), ty)
}
