//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Sums and differences with a carry: add.cc, addc, sub.cc, subc, and the sums of mad.cc and madc. The carry is a
// predicate, of which each lane has a bit.

// carries reports whether an operation makes or takes a carry.
func carries(op ir.Opcode) bool { return op >= ir.OpAddCarry && op <= ir.OpSubCarry64 }

// carried is the register file of such an operation.
func carried(op ir.Opcode) ir.RegKind {
	if op == ir.OpAddCarry64 || op == ir.OpSubCarry64 {
		return ir.In64
	}
	return ir.In32
}

// The highest bit of these functions of the result and both operands is the carry: that of a sum, and that of a difference,
// which is set where there is no borrow.
var (
	carryOfSum        = ternary(func(d, a, b bool) bool { return a && b || (a || b) && !d })
	carryOfDifference = ternary(func(d, a, b bool) bool { return !(!a && b || (!a || b) && d) })
)

// ternary is the table of a function of three bits.
func ternary(f func(d, a, b bool) bool) (table uint8) {
	for n := range 8 {
		if f(n&4 != 0, n&2 != 0, n&1 != 0) {
			table |= 1 << n
		}
	}
	return table
}

// carry compiles such an operation. A carry that comes in is one more, or, of a difference, one less where there is none.
func (e *emitter) carry(in *ir.Inst) {
	file, takes, makes := carried(in.Op), in.Imm&1 != 0, in.Imm&2 != 0
	difference := in.Op == ir.OpSubCarry || in.Op == ir.OpSubCarry64
	a, b := *e.use(file, in.A, false), *e.use(file, in.B, false)
	z, n := e.write(file, in.D, false)
	op, less, more, below, move := &x86.PADDD, &x86.PSUBD, &x86.PADDD, &x86.PCMPD, &x86.MOVD
	if file == ir.In64 {
		op, less, more, below, move = &x86.PADDQ, &x86.PSUBQ, &x86.PADDQ, &x86.PCMPQ, &x86.MOVQ
	}
	table := carryOfSum
	if difference {
		op, table = less, carryOfDifference
	}
	for p := range n {
		e.plain(op, t0, a.part(p), b.part(p))
		if takes {
			e.a.KLoad(k7, pred(in.E))
			if difference {
				e.a.KK(&x86.KNOTD, k7, 0, k7)
			}
			if p > 0 {
				e.a.KShift(&x86.KSHIFTRD, k7, k7, firstLane(file == ir.In64, p))
			}
			e.a.V(&x86.PTERNLOGD, t2, t2, t2, x86.Arg{Imm: 0xff}) // less one
			by := less
			if difference {
				by = more
			}
			e.a.V(by, t0, t0, t2, x86.Arg{Mask: k7})
		}
		if makes {
			e.copyTo(t1, t0)
			e.a.V(&x86.PTERNLOGD, t1, a.part(p), b.part(p), x86.Arg{Imm: table})
			e.plain(&x86.PXORD, t2, t2, t2)
			e.a.VK(below, k7, t1, t2, x86.Arg{Imm: intLess})
			e.collect(file, p)
		}
		e.a.V(move, z[p], 0, t0, x86.Arg{Mask: e.lanes(file == ir.In64, p)})
	}
	if makes {
		e.setPred(in.E, x86.RAX)
	}
}

// collect puts the lanes of part p, in k7, to those before, in ecx and, from the third part on, in edx. Those of all are in
// eax then.
func (e *emitter) collect(file ir.RegKind, p int) {
	join := func(op *x86.MaskOp, low x86.R) {
		e.a.KFrom(k6, low)
		e.a.KK(op, k7, k7, k6)
	}
	switch {
	case file == ir.In32 && p == 1, file == ir.In64 && p == 3:
		if p == 3 {
			join(&x86.KUNPCKBW, x86.RDX)
		}
		join(&x86.KUNPCKWD, x86.RCX)
		e.a.KTo(x86.RAX, k7)
	case p == 1:
		join(&x86.KUNPCKBW, x86.RCX)
		e.a.KTo(x86.RCX, k7)
	case p == 2:
		e.a.KTo(x86.RDX, k7)
	default:
		e.a.KTo(x86.RCX, k7)
	}
}
