//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// flush writes s, subnormal numbers as zeros, to d.
func (e *emitter) flush(d, s x86.Z) {
	if d != s {
		e.copyTo(d, s)
	}
	e.a.VM(&x86.BROADCASTD, t2, 0, word(0x7f800000), x86.Arg{})
	e.a.VK(&x86.PTESTNMD, k7, s, t2, x86.Arg{})
	e.a.VB(&x86.PANDD, d, s, word(1<<31), x86.Arg{Mask: k7})
}

// throughValue is what from makes of v, in scratch.
func (e *emitter) throughValue(v value, from func(e *emitter, d, s x86.Z)) value {
	for p := range v.z {
		if v.z[p] == noZ {
			continue
		}
		z := e.scratch()
		from(e, z, v.z[p])
		v.z[p] = z
	}
	return v
}

// operands flushes the first n operands of l.
func (e *emitter) flushOperands(l *vec, n int) {
	for _, z := range []*x86.Z{&l.a, &l.b, &l.c}[:n] {
		s := e.scratch()
		e.flush(s, *z)
		*z = s
	}
}

// flushed is an operation of n operands with .ftz, whose result is the plain one, flushed.
func flushed(emit func(*emitter, vec), n int) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.flushOperands(&l, n)
		d := l.d
		l.d, l.k = e.scratch(), 0
		emit(e, l)
		e.flush(l.d, l.d)
		e.copyTo(d, l.d)
	}
}

// flushedExactly is an operation whose result is flushed if it is tiny before it is
// rounded as a subnormal: exact gives what it is in float64, rounded towards zero.
func flushedExactly(emit func(*emitter, vec), n int, exact func(e *emitter, d x86.Z, args [3]x86.Z)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.flushOperands(&l, n)
		d, r, wide := l.d, e.scratch(), e.scratches(n)
		l.d, l.k = r, 0
		emit(e, l)
		rare, back := e.a.NewLabel(), e.a.NewLabel()
		e.with(&x86.PANDD, t2, r, constant(offAbs))
		e.a.VKB(&x86.PCMPUD, k7, t2, word(0x00800000), x86.Arg{Imm: intEqual})
		e.a.KK(&x86.KORTESTD, k7, 0, k7)
		e.a.JumpIf(x86.NotEqual, rare)
		e.a.Bind(back)
		e.flush(r, r)
		e.copyTo(d, r)
		operands := [3]x86.Z{l.a, l.b, l.c}
		e.later = append(e.later, func() {
			e.a.Bind(rare)
			for h, t := range []x86.Z{t0, t1} {
				var args [3]x86.Z
				for i, z := range wide {
					args[i] = z
					e.a.V(&x86.EXTRACTI64X4, operands[i], 0, z, x86.Arg{Imm: uint8(h)})
					e.a.V(&x86.CVTPS2PD, z, 0, z, x86.Arg{})
				}
				exact(e, t, args)
				e.with(&x86.PANDQ, t, t, double(1<<63-1))
				e.with(&x86.PSUBQ, t, t, f64(flushLimit)) // negative where it is tiny
				e.a.V(&x86.PSRLQ, t, 0, t, x86.Arg{Imm: 32})
			}
			e.a.V(&x86.PMOVQD, t0, 0, t2, x86.Arg{})
			e.a.V(&x86.PMOVQD, t1, 0, t0, x86.Arg{})
			e.a.V(&x86.INSERTI64X4, t2, t2, t0, x86.Arg{Imm: 1})
			e.a.VM(&x86.BROADCASTD, t0, 0, word(1<<31), x86.Arg{})
			e.a.VK(&x86.PTESTMD, k7, t2, t0, x86.Arg{Mask: k7})
			e.a.V(&x86.PANDD, r, r, t0, x86.Arg{Mask: k7})
			e.a.Jump(back)
		})
	}
}

// saturated clamps to 0 and 1; NaN becomes 0.
func saturated(emit func(*emitter, vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		d := l.d
		l.d, l.k = e.scratch(), 0
		emit(e, l)
		e.with(&x86.MAXPS, l.d, l.d, word(0))
		e.with(&x86.MINPS, d, l.d, word(0x3f800000))
	}
}

func toZero(op *x86.Op) func(e *emitter, d x86.Z, args [3]x86.Z) {
	return func(e *emitter, d x86.Z, args [3]x86.Z) { e.a.V(op, d, args[0], args[1], x86.Arg{Round: x86.Truncate}) }
}

// fusedToZero is a*b+c by an operation that adds to its destination.
func fusedToZero(op *x86.Op) func(e *emitter, d x86.Z, args [3]x86.Z) {
	return func(e *emitter, d x86.Z, args [3]x86.Z) {
		e.copyTo(d, args[2])
		e.a.V(op, d, args[0], args[1], x86.Arg{Round: x86.Truncate})
	}
}

// flushRows are the operations of f32 with .ftz, with .sat and with both.
func flushRows(rows map[string]rowOp) {
	add := func(op, form string, plain, ftz func(*emitter, vec), sat bool) {
		rows[op+".ftz.f32"] = rowOp{form: form, emit: ftz, float: true}
		if sat {
			rows[op+".sat.f32"] = rowOp{form: form, emit: saturated(plain), float: true}
			rows[op+".ftz.sat.f32"] = rowOp{form: form, emit: saturated(ftz), float: true}
		}
	}
	for op, ins := range map[string]*x86.Op{"add": &x86.ADDPS, "sub": &x86.SUBPS} {
		add(op, "f=ff", two(ins), flushed(two(ins), 2), true)
	}
	add("mul", "f=ff", two(&x86.MULPS), flushedExactly(two(&x86.MULPS), 2, toZero(&x86.MULPD)), true)
	add("div", "f=ff", two(&x86.DIVPS), flushedExactly(two(&x86.DIVPS), 2, toZero(&x86.DIVPD)), false)
	add("rcp", "f=f", nil, flushedExactly(reciprocal(x86.AsSet), 1, oneOver), false)
	for op, ins := range map[string]struct{ add, mul, exact *x86.Op }{
		"fma":  {add: &x86.FMADD231PS, mul: &x86.FMADD213PS, exact: &x86.FMADD231PD},
		"fms":  {add: &x86.FMSUB231PS, mul: &x86.FMSUB213PS, exact: &x86.FMSUB231PD},
		"fnma": {add: &x86.FNMADD231PS, mul: &x86.FNMADD213PS, exact: &x86.FNMADD231PD},
		"fnms": {add: &x86.FNMSUB231PS, mul: &x86.FNMSUB213PS, exact: &x86.FNMSUB231PD},
	} {
		plain := fusedAdd(ins.add, ins.mul, x86.AsSet)
		add(op, "f=fff", plain, flushedExactly(plain, 3, fusedToZero(ins.exact)), true)
	}
	for _, op := range []string{"sqrt", "rcp.approx", "sqrt.approx", "rsqrt.approx", "neg", "abs"} {
		add(op, "f=f", nil, flushed(rows[op+".f32"].emit, 1), false)
	}
	for _, op := range []string{"div.full", "div.approx", "min", "max"} {
		add(op, "f=ff", nil, flushed(rows[op+".f32"].emit, 2), false)
	}
	rows["cvt.ftz.f32.f32"] = rowOp{form: "f=f", emit: flushed(one(&x86.MOVD), 1), float: true}
	rows["cvt.sat.f32.f32"] = rowOp{form: "f=f", emit: saturated(one(&x86.MOVD)), float: true}
	rows["cvt.ftz.sat.f32.f32"] = rowOp{form: "f=f", emit: saturated(flushed(one(&x86.MOVD), 1)), float: true}
}
