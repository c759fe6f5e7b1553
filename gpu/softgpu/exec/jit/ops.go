//go:build amd64 && linux

package jit

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// operation compiles one operation that is not control flow.
func (e *emitter) operation(pc int32, in *ir.Inst) {
	if slices.Contains(e.early.done, pc) {
		return
	}
	e.choose(in)
	switch {
	case in.Kind == ir.KCompare:
		e.compare(in)
	case in.Op >= ir.OpRow:
		e.row(pc, in)
	case in.Op == ir.OpSpin:
		e.spin(in)
	case exchanges(in.Op):
		e.exchange(pc, in)
	case in.Op == ir.OpMatrix:
		e.matrix(pc, in)
	case in.Op == ir.OpCopy:
		e.copyAsync(pc, in)
	case in.Op == ir.OpTransfer, in.Op == ir.OpTransferOut:
		e.transfer(pc, in)
	case ofRows(in.Op):
		e.matrixRows(pc, in)
	case in.Op == ir.OpOfLane || in.Op == ir.OpOfWarp:
		e.special(in)
	case carries(in.Op):
		e.carry(in)
	case in.Op == ir.OpActiveMask:
		e.activeMask(in)
	case in.Op == ir.OpFence: // what is locked orders accesses, as the interpreter's addition does
		e.a.RI(x86.MOV, false, x86.RAX, 0)
		e.a.ToMemory(x86.ADD, true, false, frameAt(offPC), x86.RAX)
	case in.Op == ir.OpAtom:
		e.atom(pc, in)
	case in.Op >= ir.OpLoad:
		e.access(pc, in)
	case in.Op == ir.OpTid && e.threadPlace(in):
	case in.Op == ir.OpTid:
		e.load(in, func(z x86.Z, part int) {
			e.a.RM(x86.MOV, true, x86.RAX, frameAt(offTID))
			e.a.VM(&x86.LOADD, z, 0, x86.Mem{Base: x86.RAX, Disp: int32(in.Imm)*128 + int32(part)*64}, x86.Arg{Mask: e.lanes(false, part)})
		}, false)
	case in.Op == ir.OpBlock:
		e.load(in, func(z x86.Z, part int) {
			e.a.RM(x86.MOV, true, x86.RAX, frameAt(offBlock))
			e.a.VM(&x86.BROADCASTD, z, 0, x86.Mem{Base: x86.RAX, Disp: 4 * int32(in.Imm)}, x86.Arg{Mask: e.lanes(false, part)})
		}, true)
	case in.Op == ir.OpDynamic:
		e.load(in, func(z x86.Z, part int) {
			e.a.RM(x86.MOV, true, x86.RAX, frameAt(offOwn))
			e.a.RI(x86.ADD, true, x86.RAX, int32(e.fn.DynShared))
			e.a.FromGP(&x86.FROMGPD, z, x86.RAX, x86.Arg{Mask: e.lanes(false, part)})
		}, true)
	case in.Op == ir.OpLocalAddr:
		e.load(in, func(z x86.Z, part int) {
			e.a.Imm64(x86.RAX, in.Imm)
			e.a.RM(x86.ADD, true, x86.RAX, frameAt(offLocalBase))
			e.a.FromGP(&x86.FROMGPQ, z, x86.RAX, x86.Arg{Mask: e.lanes(true, part)})
		}, true)
	case in.Op == ir.OpLoadFrame:
		e.loadFrame(in)
	case in.Op == ir.OpStoreFrame:
		e.storeFrame(in)
	case in.Op == ir.OpParam:
		e.param(in)
	case in.Op == ir.OpPredMask:
		e.load(in, func(z x86.Z, part int) {
			e.a.KLoad(k7, pred(in.A))
			if part > 0 {
				e.a.KShift(&x86.KSHIFTRD, k7, k7, 16)
			}
			e.broadcast32(t2, uint32(in.Imm))
			e.a.V(&x86.MOVD, t2, 0, t2, x86.Arg{Mask: k7, Zero: true})
			e.a.V(&x86.MOVD, z, 0, t2, x86.Arg{Mask: e.lanes(false, part)})
		}, false)
	default:
		e.predicate(in)
	}
}

// choose finds which lanes an operation writes.
func (e *emitter) choose(in *ir.Inst) {
	e.mode = allOfThem
	if e.masked {
		e.mode = active
	}
	if in.Guard != 0 {
		e.a.KLoad(k5, pred(in.Guard-1))
		if in.GuardNeg {
			e.a.KK(&x86.KNOTD, k5, 0, k5)
		}
		if e.masked {
			e.a.KK(&x86.KANDD, k5, k5, kActive)
		}
		e.mode = guarded
	}
}

// lanes is the mask of the lanes that the operation writes of a part.
func (e *emitter) lanes(wide bool, part int) x86.K {
	switch e.mode {
	case allOfThem:
		return 0
	case active:
		if wide {
			return [...]x86.K{1, 3, 2, 4}[part]
		}
		return [...]x86.K{1, 2}[part]
	}
	if part == 0 {
		return k5
	}
	e.a.KShift(&x86.KSHIFTRD, k6, k5, firstLane(wide, part))
	return k6
}

// write makes room for the result of the operation.
func (e *emitter) write(file ir.RegKind, reg uint32, uniform bool) (z [4]x86.Z, n int) {
	if e.mode != allOfThem {
		return e.merge(file, reg), parts(file)
	}
	if n = parts(file); uniform {
		n = 1
	}
	return e.define(file, reg, uniform), n
}

// load compiles an operation that reads no vector: emit makes each part of the result.
func (e *emitter) load(in *ir.Inst, emit func(z x86.Z, part int), uniform bool) {
	file := ir.In32
	if in.Kind == ir.KLane64 {
		file = ir.In64
	}
	z, n := e.write(file, in.D, uniform)
	for p := range n {
		emit(z[p], p)
	}
}

// param loads a parameter of the kernel.
func (e *emitter) param(in *ir.Inst) {
	file, op := ir.In32, &x86.BROADCASTD
	if in.C == 8 {
		file, op = ir.In64, &x86.BROADCASTQ
	}
	z, n := e.write(file, in.D, true)
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offParams))
	for p := range n {
		e.a.VM(op, z[p], 0, x86.Mem{Base: x86.RAX, Disp: int32(in.Imm)}, x86.Arg{Mask: e.lanes(file == ir.In64, p)})
	}
}

// row compiles a row of the lane table.
func (e *emitter) row(pc int32, in *ir.Inst) {
	op := rowOps[in.Op-ir.OpRow]
	args := op.form[2:]
	var v [4]value
	uniform, raw := true, false
	stride, wide, of := e.strideOf(in)
	for n := range args {
		if args[n] == 'p' {
			uniform = false
			continue
		}
		move := op.move && e.mode == allOfThem
		use := e.use
		if stride.stride != 0 {
			use = e.first
		}
		src := use(fileOf(args[n]), [4]uint32{in.A, in.B, in.C, in.E}[n], args[n] == 'f' && op.widen == nil && !op.signs || move)
		v[n] = *src
		uniform = uniform && src.uniform
		raw = raw || move && src.raw
	}
	file := fileOf(op.form[0])
	if op.check != nil {
		out := e.aside(pc)
		for p := range parts(file) {
			op.check(e, vec{a: v[0].part(p), k: e.lanes(file == ir.In64, p)}, out)
		}
	}
	var z [4]x86.Z
	n := 1
	if wide >= 0 {
		e.leaveIfWraps(v[wide].part(0), of, ruleOf(in).signed, e.aside(pc))
	}
	if stride.stride != 0 {
		z = e.defineStride(file, in.D, stride)
	} else {
		z, n = e.write(file, in.D, uniform)
	}
	own := e.pinned()
	for p := range n {
		e.keepPinned(own) // each part has all scratch registers
		l := vec{d: z[p], k: e.lanes(file == ir.In64, p), part: p, imm: in.Imm, pred: pred(in.C)}
		for k, arg := range args {
			switch {
			case arg == 'p':
			case fileOf(byte(arg)) == file:
				*[...]*x86.Z{&l.a, &l.b, &l.c, &l.e}[k] = v[k].part(p)
			case file == ir.In64 && op.low && v[k].uniform:
				*[...]*x86.Z{&l.a, &l.b, &l.c}[k] = v[k].z[0]
			case file == ir.In64:
				*[...]*x86.Z{&l.a, &l.b, &l.c, &l.e}[k] = e.widened(&v[k], p, [...]x86.Z{t0, t1, t3, t2}[k], op)
			default:
				l.a, l.high = v[k].part(2*p), v[k].part(2*p+1)
			}
		}
		if op.float && l.k != 0 {
			// Under the mask: other lanes may hold subnormals, which take long.
			d := l.d
			l.d = t3
			op.emit(e, l)
			e.canonical(t3, l.k)
			e.a.V(&x86.MOVD, d, 0, t3, l.arg())
			continue
		}
		op.emit(e, l)
	}
	if e.mode == allOfThem {
		e.at(file, in.D).raw = op.float || raw
	}
}

// widened extends the lanes of part p of a 64-bit result to 64 bits, in t.
func (e *emitter) widened(v *value, p int, t x86.Z, row *rowOp) x86.Z {
	op := row.widen
	switch {
	case op != nil:
	case row.signed:
		op = &x86.PMOVSXDQ
	default:
		op = &x86.PMOVZXDQ
	}
	from := v.part(p / 2)
	if p%2 != 0 && !v.uniform {
		e.a.V(&x86.EXTRACTI64X4, from, 0, t, x86.Arg{Imm: 1})
		from = t
	}
	e.a.V(op, t, 0, from, x86.Arg{})
	return t
}

// comparison leaves the comparison of all lanes in eax.
func (e *emitter) comparison(in *ir.Inst) {
	op := rowOps[in.Op-ir.OpRow]
	file := fileOf(op.form[2])
	a := *e.use(file, in.A, op.form[2] == 'f')
	b := a
	if len(op.form) > 3 {
		b = *e.use(file, in.B, op.form[2] == 'f')
	}
	if from := op.from; from != nil {
		a, b = e.throughValue(a, from), e.throughValue(b, from)
	}
	cmp := func(k x86.K, p int) { e.a.VK(op.cmp, k, a.part(p), b.part(p), x86.Arg{Imm: op.pred}) }
	cmp(k7, 0)
	switch {
	case file == ir.In32 && a.uniform && b.uniform:
		e.a.KK(&x86.KUNPCKWD, k7, k7, k7)
	case file == ir.In32:
		cmp(k6, 1)
		e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
	case a.uniform && b.uniform:
		e.a.KK(&x86.KUNPCKBW, k7, k7, k7)
		e.a.KK(&x86.KUNPCKWD, k7, k7, k7)
	default:
		cmp(k6, 1)
		e.a.KK(&x86.KUNPCKBW, k7, k6, k7)
		e.a.KTo(x86.RAX, k7)
		cmp(k6, 2)
		cmp(k7, 3)
		e.a.KK(&x86.KUNPCKBW, k6, k7, k6)
		e.a.KFrom(k7, x86.RAX)
		e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
	}
	e.a.KTo(x86.RAX, k7)
}

// compare compiles setp.
func (e *emitter) compare(in *ir.Inst) {
	e.comparison(in)
	if in.Combine == ir.BoolNone {
		if in.E != ir.NoReg {
			e.a.RR(x86.MOV, false, x86.RCX, x86.RAX)
			e.a.Not(x86.RCX)
		}
	} else {
		op := map[ir.BoolOp]x86.Alu{ir.BoolAnd: x86.AND, ir.BoolOr: x86.OR, ir.BoolXor: x86.XOR}[in.Combine&^ir.BoolNot]
		e.a.RM(x86.MOV, false, x86.RDX, pred(in.C))
		if in.Combine&ir.BoolNot != 0 {
			e.a.Not(x86.RDX)
		}
		if in.E != ir.NoReg {
			e.a.RR(x86.MOV, false, x86.RCX, x86.RAX)
			e.a.Not(x86.RCX)
			e.a.RR(op, false, x86.RCX, x86.RDX)
		}
		e.a.RR(op, false, x86.RAX, x86.RDX)
	}
	e.setPred(in.D, x86.RAX)
	if in.E != ir.NoReg {
		e.setPred(in.E, x86.RCX)
	}
}

// setPred writes the lanes of a predicate from a general register, which stays.
func (e *emitter) setPred(p uint32, m x86.R) {
	if e.mode == allOfThem {
		e.a.Store(false, pred(p), m)
		return
	}
	e.a.RM(x86.MOV, false, x86.RDX, pred(p))
	e.a.RR(x86.XOR, false, x86.RDX, m)
	if e.mode == active {
		e.a.RR(x86.AND, false, x86.RDX, rMask)
	} else {
		e.a.KTo(x86.RBX, k5)
		e.a.RR(x86.AND, false, x86.RDX, x86.RBX)
	}
	// The bits to change: old ^ (old ^ m) & mask.
	e.a.RM(x86.XOR, false, x86.RDX, pred(p))
	e.a.Store(false, pred(p), x86.RDX)
}

// predicate compiles logic of predicates.
func (e *emitter) predicate(in *ir.Inst) {
	if in.Op == ir.OpPredImm {
		value := int32(0)
		if in.Imm != 0 {
			value = -1
		}
		e.a.RI(x86.MOV, false, x86.RAX, value)
		e.setPred(in.D, x86.RAX)
		return
	}
	e.a.RM(x86.MOV, false, x86.RAX, pred(in.A))
	switch in.Op {
	case ir.OpPredAnd:
		e.a.RM(x86.AND, false, x86.RAX, pred(in.B))
	case ir.OpPredOr:
		e.a.RM(x86.OR, false, x86.RAX, pred(in.B))
	case ir.OpPredXor:
		e.a.RM(x86.XOR, false, x86.RAX, pred(in.B))
	case ir.OpPredNot:
		e.a.Not(x86.RAX)
	}
	e.setPred(in.D, x86.RAX)
}
