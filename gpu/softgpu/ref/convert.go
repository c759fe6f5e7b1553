package ref

import "pvdrm/gpu/ptx"

// convert is cvt (9.7.8).
func (t *thread) convert(i *ptx.Instr) {
	m := &i.Mods
	to, from := m.Types[0], m.Types[1]
	var x uint64
	switch {
	case formatOf(to).closed:
		width := to.Bits() / 2
		x = toClosed(m, formatOf(to), t.get(&i.Args[1], from))<<width | toClosed(m, formatOf(to), t.get(&i.Args[2], from))
	case formatOf(from).closed:
		both, f := t.get(&i.Args[1], from), formatOf(from)
		for part := range 2 {
			h := half.encode(f.decode(both>>(part*from.Bits()/2)&(2*f.sign()-1)), ptx.RN)
			if m.Has(ptx.Relu) {
				h = half.relu(h)
			}
			x |= h << (16 * part)
		}
	case from == ptx.E4M3x2 || from == ptx.E5M2x2:
		both := t.get(&i.Args[1], from)
		x = convertFloat(m, packed[to], from, both>>8)<<16 | convertFloat(m, packed[to], from, both&0xff)
	case to == ptx.F16x2 || to == ptx.BF16x2: // of two f32, the first above the second
		part := packed[to]
		x = convertFloat(m, part, from, t.get(&i.Args[1], from))<<16 | convertFloat(m, part, from, t.get(&i.Args[2], from))
	case to == ptx.E4M3x2 || to == ptx.E5M2x2: // of two f32 or the halves of an f16x2
		part, high, low := from, uint64(0), uint64(0)
		if from == ptx.F32 {
			high, low = t.get(&i.Args[1], from), t.get(&i.Args[2], from)
		} else {
			both := t.get(&i.Args[1], from)
			part, high, low = packed[from], both>>16, both&0xffff
		}
		x = convertFloat(m, to, part, high)<<8 | convertFloat(m, to, part, low)
	case to == ptx.TF32:
		x = toTensor(m, t.get(&i.Args[1], from))
	case to.Float() && from.Float():
		x = convertFloat(m, to, from, t.get(&i.Args[1], from))
	case to.Float():
		x = intToFloat(m, to, t.get(&i.Args[1], from), from)
	case from.Float():
		x = floatToInt(m, to, from, t.get(&i.Args[1], from))
	default:
		x = intToInt(m, to, t.get(&i.Args[1], from), from)
	}
	t.set(&i.Args[0], x, to)
}

// magnitude is the sign and the absolute value of an integer.
func magnitude(x uint64, ty ptx.Type) (neg bool, abs uint64) {
	if s := extend(x, ty); ty.Signed() && s < 0 {
		return true, -uint64(s)
	}
	return false, x
}

// clampInt is the integer of type ty that is nearest to ±abs.
func clampInt(neg bool, abs uint64, ty ptx.Type) uint64 {
	most, least := mask(ty), uint64(0)
	if ty.Signed() {
		most, least = most>>1, most>>1+1
	}
	if neg {
		return -min(abs, least)
	}
	return min(abs, most)
}

func intToInt(m *ptx.Mods, to ptx.Type, x uint64, from ptx.Type) uint64 {
	if m.Has(ptx.Sat) {
		neg, abs := magnitude(x, from)
		return clampInt(neg, abs, to)
	}
	return uint64(extend(x, from))
}

func intToFloat(m *ptx.Mods, to ptx.Type, x uint64, from ptx.Type) uint64 {
	neg, abs := magnitude(x, from)
	f := formatOf(to)
	r := f.encode(fromInt(abs, neg), m.Round)
	if m.Has(ptx.Sat) {
		r = f.saturate(r)
	}
	return r
}

// floatToInt clamps what does not fit. NaN gives 0, or the top bit where a
// double or a 64-bit integer is involved.
func floatToInt(m *ptx.Mods, to, from ptx.Type, x uint64) uint64 {
	f := formatOf(from)
	if m.Has(ptx.FTZ) && from == ptx.F32 {
		x = f.flush(x)
	}
	n := f.decode(x).integral(m.Round)
	switch {
	case n.kind == notANumber && (from == ptx.F64 || to.Bits() == 64):
		return 1 << (to.Bits() - 1)
	case n.kind == notANumber || n.kind == zero:
		return 0
	case n.kind == infinite || n.exp+n.m.len() > 64:
		return clampInt(n.neg, 1<<64-1, to)
	}
	return clampInt(n.neg, n.m.shl(n.exp).lo, to)
}

// convertFloat converts between floating-point types, or elements of packed
// ones.
func convertFloat(m *ptx.Mods, to, from ptx.Type, x uint64) uint64 {
	f, d := formatOf(from), formatOf(to)
	toInteger := m.Round == ptx.RNI || m.Round == ptx.RZI || m.Round == ptx.RMI || m.Round == ptx.RPI
	if to == from && !toInteger && !m.Has(ptx.Sat) && !m.Has(ptx.FTZ) && (to == ptx.F32 || to == ptx.F64) {
		return x // a move
	}
	// Half precision results of an f32 are not flushed, nor is that.
	flushes := m.Has(ptx.FTZ) && d != half && d != bfloat
	if flushes && from == ptx.F32 {
		x = f.flush(x)
	}
	n := f.decode(x)
	if n.kind == notANumber {
		return convertNaN(m, to, from, x)
	}
	if toInteger {
		n = n.integral(m.Round)
	}
	round := m.Round
	if toInteger {
		round = ptx.RN
	}
	var r uint64
	if flushes && to == ptx.F32 {
		r = d.encodeFlushed(n, round)
	} else {
		r = d.encode(n, round)
	}
	if m.Has(ptx.Sat) {
		r = d.saturate(r)
	}
	if m.Has(ptx.SatFinite) {
		r = d.satFinite(r)
	}
	if m.Has(ptx.Relu) {
		r = d.relu(r)
	}
	return r
}

// toClosed converts an f32 to a format that has neither NaN nor infinities: they become its
// largest number, NaN without a sign.
func toClosed(m *ptx.Mods, f format, x uint64) uint64 {
	n, largest := single.decode(x), f.sign()-1
	var r uint64
	switch n.kind {
	case notANumber:
		return largest
	case finite:
		top := n.exp + n.m.len() - 1
		r = largest
		if lowest := max(top, f.least()) - f.fraction; top <= 1<<f.exponent {
			r = min(n.roundAt(lowest, ptx.RN).lo+uint64(lowest+f.fraction-f.least())<<f.fraction, largest)
		}
	case infinite:
		r = largest
	}
	switch {
	case n.neg && m.Has(ptx.Relu):
		return 0
	case n.neg:
		return r | f.sign()
	}
	return r
}

// convertNaN converts a NaN: between f64 and narrower types its upper bits stay
// and it becomes quiet; else there is one NaN of the type.
func convertNaN(m *ptx.Mods, to, from ptx.Type, x uint64) uint64 {
	f, d := formatOf(from), formatOf(to)
	switch {
	case m.Has(ptx.Sat):
		return 0
	case to == ptx.F64 && from == ptx.F64:
		return x | 1<<51
	case to == ptx.F64 && m.Has(ptx.FTZ):
		x = f.encode(number{kind: notANumber}, ptx.RN)
	case to == ptx.F32 && from == ptx.BF16:
		return x << 16 // the bits as they are
	case from != ptx.F64 && to != ptx.F64:
		return d.encode(number{kind: notANumber}, ptx.RN)
	}
	r := d.infinity()
	if x&f.sign() != 0 {
		r |= d.sign()
	}
	fraction := x&(1<<f.fraction-1) | 1<<(f.fraction-1)
	if n := d.fraction - f.fraction; n >= 0 {
		return r | fraction<<n
	}
	return r | fraction>>(f.fraction-d.fraction)
}

// toTensor is cvt to tf32: 10 bits of fraction, in the place of an f32. With
// .rna a NaN is cut like a number, and .satfinite takes one step towards zero
// from all that has the highest exponent then, NaN too.
func toTensor(m *ptx.Mods, x uint64) uint64 {
	const unused = 13 // bits below the fraction
	n := single.decode(x)
	r := x >> unused
	if n.kind != notANumber || m.Round != ptx.RNA {
		r = tensor32.encode(n, m.Round)
	}
	if m.Has(ptx.SatFinite) && r&tensor32.infinity() == tensor32.infinity() {
		r--
	}
	if m.Has(ptx.Relu) {
		r = tensor32.relu(r)
	}
	return r << unused
}
