package ref

import (
	"strings"

	"pvdrm/gpu/ptx"
)

// Video instructions (sections 9.7.16 and 9.7.17). Those on one value are 64-bit arithmetic on
// an H100, which does not do what the manual says in some cases; see docs/ptx.md.

// video runs a video instruction.
func (t *thread) video(i *ptx.Instr) {
	a, b := t.get(&i.Args[1], ptx.U32), t.get(&i.Args[2], ptx.U32)
	c := uint64(0)
	if len(i.Args) > 3 {
		c = t.get(&i.Args[3], ptx.U32)
	}
	var d uint64
	switch {
	case i.Op == ptx.OpVmad:
		d = scaledProduct(i, uint64(chosen(a, i.Args[1].Sel, i.Mods.Types[1])), uint64(chosen(b, i.Args[2].Sel, i.Mods.Types[2])), c)
	case i.Op.Lanes() > 1:
		d = severalAtOnce(i, a|b<<32, c)
	default:
		d = oneVideo(i, a, b, c)
	}
	t.set(&i.Args[0], d, ptx.U32)
}

// partType is the type of the part of a word that a selector names, with the sign of ty.
func partType(s ptx.Selector, ty ptx.Type) ptx.Type {
	switch {
	case s == 0:
		return ty
	case s.Half() && ty.Signed():
		return ptx.S16
	case s.Half():
		return ptx.U16
	case ty.Signed():
		return ptx.S8
	}
	return ptx.U8
}

// chosen is the part of a word that a selector names, extended.
func chosen(x uint64, s ptx.Selector, ty ptx.Type) int64 {
	part := partType(s, ty)
	return extend(x>>(s.At(0)*part.Bits()), part)
}

// videoTypes are the types of d, a and b.
func videoTypes(i *ptx.Instr) (d, a, b ptx.Type) {
	m := &i.Mods.Types
	if m[2] == ptx.TypeNone { // vset
		return m[0], m[0], m[1]
	}
	return m[0], m[1], m[2]
}

// primary is the first operation on two values.
func primary(i *ptx.Instr, x, y int64) int64 {
	switch strings.TrimRight(i.Op.String(), "24") {
	case "vadd":
		return x + y
	case "vsub":
		return x - y
	case "vabsdiff":
		if x < y {
			return y - x
		}
		return x - y
	case "vmin":
		return min(x, y)
	case "vmax":
		return max(x, y)
	case "vavrg":
		if x+y < 0 {
			return (x + y) >> 1
		}
		return (x + y + 1) >> 1
	case "vset":
		return int64(bit(compare(i.Mods.Cmp, ptx.S64, uint64(x), uint64(y))))
	}
	if i.Mods.Mode == ptx.ModeWrap {
		y %= 32
	}
	for range min(y, 32) {
		if i.Op == ptx.OpVshl {
			x += x
		} else {
			x >>= 1
		}
	}
	return x
}

// clamped is the number of a type that is nearest to x.
func clamped(x int64, ty ptx.Type) int64 {
	least, most := int64(0), int64(mask(ty))
	if ty.Signed() {
		least, most = -1<<(ty.Bits()-1), 1<<(ty.Bits()-1)-1
	}
	return min(max(x, least), most)
}

// oneVideo is a video instruction on one value.
func oneVideo(i *ptx.Instr, a, b, c uint64) uint64 {
	dt, at, bt := videoTypes(i)
	x := primary(i, chosen(a, i.Args[1].Sel, at), chosen(b, i.Args[2].Sel, bt))
	sel := i.Args[0].Sel
	part := partType(sel, dt)
	sums := i.Op == ptx.OpVadd || i.Op == ptx.OpVsub
	if i.Mods.Has(ptx.Sat) {
		switch {
		case i.Op == ptx.OpVshl || i.Op == ptx.OpVshr:
			// Of 34 bits, and to 32 whatever the part.
			x = clamped(x<<30>>30, dt)
			sums = true
		case sel != 0 && (x < 0 || x > clamped(x, part)):
			x = clamped(1<<40, part) // also if it is too small
		case sel == 0 && dt == ptx.U32 && x < 0:
			x = 0 // too large is not noticed
		case sel == 0 && dt == ptx.S32:
			x = clamped(x, dt)
		}
	}
	if sums { // the upper half repeats the sign of the lower one
		x = extend(uint64(x), ptx.S32)
	}
	wide := ptx.U64
	if dt.Signed() {
		wide = ptx.S64
	}
	other := uint64(extend(c, dt))
	switch i.Mods.Atomic {
	case ptx.AtomicAdd:
		return uint64(x) + c
	case ptx.AtomicMin:
		if !compare(ptx.CmpLT, wide, uint64(x), other) {
			return c
		}
	case ptx.AtomicMax:
		if !compare(ptx.CmpGT, wide, uint64(x), other) {
			return c
		}
	default:
		if sel != 0 && part.Bits() == 16 && sel.At(0) == 1 { // the upper half of x, not the lower one
			return uint64(x)&0xffff0000 | c&0xffff
		}
		if sel != 0 {
			return replaced(c, uint64(x), part.Bits(), sel.At(0))
		}
	}
	return uint64(x)
}

// replaced is c with x in part n of so many bits.
func replaced(c, x uint64, width, n int) uint64 {
	field := uint64(1<<width-1) << (n * width)
	return c&^field | x<<(n*width)&field
}

// severalAtOnce is a video instruction on halves or bytes of a and b.
func severalAtOnce(i *ptx.Instr, ab, c uint64) uint64 {
	dt, at, bt := videoTypes(i)
	lanes := i.Op.Lanes()
	all := ptx.Selector(0)
	if lanes == 2 {
		all = 1 << 15
	}
	narrow := func(ty ptx.Type) ptx.Type { return partType(all|1<<12, ty) }
	element := func(operand, lane int, ty ptx.Type) int64 {
		n := operand*lanes + lane
		if s := i.Args[1+operand].Sel; s != 0 {
			n = s.At(lane)
		}
		return extend(ab>>(n*32/lanes), narrow(ty))
	}
	writes := func(lane int) bool {
		s := i.Args[0].Sel
		for n := range s.Len() {
			if s.At(n) == lane {
				return true
			}
		}
		return s == 0
	}
	d := c
	for lane := range lanes {
		x := primary(i, element(0, lane, at), element(1, lane, bt))
		if i.Mods.Has(ptx.Sat) {
			x = clamped(x, narrow(dt))
		}
		switch {
		case !writes(lane):
		case i.Mods.Atomic == ptx.AtomicAdd:
			d += uint64(x)
		default:
			d = replaced(d, uint64(x), 32/lanes, lane)
		}
	}
	return d
}

// scaledProduct is vmad. The factors and c are signed words, whatever their types say.
func scaledProduct(i *ptx.Instr, a, b, c uint64) uint64 {
	x, y := extend(a, ptx.S32), extend(b, ptx.S32)
	minus, minusC := i.Args[1].Minus != i.Args[2].Minus, i.Args[3].Minus
	isSigned := i.Mods.Types[1].Signed() || i.Mods.Types[2].Signed() || minus || minusC
	sum := x * y
	if minus {
		sum = -sum
	}
	if minusC {
		sum += extend(^c, ptx.S32) + 1
	} else {
		sum += extend(c, ptx.S32)
	}
	if i.Mods.Has(ptx.PlusOne) {
		sum++
	}
	scale := 0
	if i.Mods.Has(ptx.Shift7) {
		scale = 7
	} else if i.Mods.Has(ptx.Shift15) {
		scale = 15
	}
	ty := ptx.U32
	if isSigned {
		sum, ty = sum>>scale, ptx.S32
	} else {
		sum = int64(uint64(sum) >> scale)
	}
	if i.Mods.Has(ptx.Sat) {
		sum = clamped(sum, ty)
	}
	return uint64(sum)
}

// packIntegers is cvt.pack (9.7.8): a above b, and c above both.
func (t *thread) packIntegers(i *ptx.Instr) {
	to := i.Mods.Type()
	width := to.ElementBits()
	least, most := int64(0), int64(1)<<width-1
	if strings.HasPrefix(to.String(), "s") {
		least, most = -1<<(width-1), 1<<(width-1)-1
	}
	x := uint64(0)
	if len(i.Args) > 3 {
		x = t.get(&i.Args[3], ptx.B32)
	}
	for n := range 2 {
		v := min(max(t.signed(&i.Args[1+n], ptx.S32), least), most)
		x = x<<width | uint64(v)&(1<<width-1)
	}
	t.set(&i.Args[0], x, ptx.U32)
}
