package simt

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

const lostAddress = gpu.LostAddress

func (b *builder) bra(i *ptx.Instr) {
	if i.Guard.Name == "" {
		b.emit(inst{kind: kJump, target: i.Args[0].Target, other: -1})
		return
	}
	b.use(i.Guard.Reg)
	next := b.newLabel()
	b.emit(inst{kind: kBranch, a: b.regs[i.Guard.Reg].index, neg: i.Guard.Neg, target: i.Args[0].Target, other: next})
	b.place(next)
}

func (b *builder) brx(i *ptx.Instr) {
	list, ok := i.Args[1].Ref.(*ptx.Targets)
	if !ok {
		b.fail(i, "no list of targets")
		return
	}
	x := &extra{}
	for k := range list.Labels {
		x.targets = append(x.targets, list.Labels[k].Target)
	}
	b.emit(inst{kind: kIndexed, a: b.src32(&i.Args[0], ptx.U32), x: x, other: -1})
}

func (b *builder) end(i *ptx.Instr) {
	k := kRet
	if i.Op == ptx.OpExit {
		k = kExit
	}
	b.leave(k)
}

// leave ends the function or the thread.
func (b *builder) leave(k kind) {
	for _, r := range b.results {
		b.use(r)
	}
	b.emit(inst{kind: k, other: -1})
}

func (b *builder) trap(i *ptx.Instr) {
	b.emit(inst{kind: kTrap, x: &extra{detail: i.Op.String()}, other: -1})
}

func (b *builder) nanosleep(i *ptx.Instr) { b.emit(inst{kind: kYield, other: -1}) }

func (b *builder) bar(i *ptx.Instr) {
	m := &i.Mods
	if m.Mode == ptx.ModeWarp {
		b.emit(inst{kind: kWarpSync, fn: nothing, e: b.src32(&i.Args[0], ptx.U32), other: -1})
		return
	}
	op := &barrierOp{arrive: m.Mode == ptx.ModeArrive, count: noReg, pred: noReg}
	args := i.Args
	in := inst{kind: kBarrier, x: &extra{barrier: op}, d: noReg, other: -1}
	if m.Mode == ptx.ModeRed {
		op.pred, op.predNeg = b.srcPred(&args[len(args)-1])
		args = args[1 : len(args)-1]
	}
	op.id = b.src32(&args[0], ptx.U32)
	if len(args) > 1 {
		op.count = b.src32(&args[1], ptx.U32)
	}
	if m.Mode == ptx.ModeRed {
		switch m.Bool {
		case ptx.BoolPopc:
			op.popc = true
			in.d = b.dst(&i.Args[0], in32)
		case ptx.BoolAnd:
			op.reduce = boolAnd
			in.d = b.dst(&i.Args[0], inPred)
		default:
			op.reduce = boolOr
			in.d = b.dst(&i.Args[0], inPred)
		}
	}
	b.emit(in)
}

// gather emits an operation that exchanges data between lanes; the .sync forms
// wait for the lanes of their mask.
func (b *builder) gather(i *ptx.Instr, in inst, mask *ptx.Operand) {
	in.kind = kMasked
	if i.Mods.Has(ptx.Sync) {
		in.kind = kWarpSync
		in.e = b.src32(mask, ptx.U32)
	}
	b.emit(in)
}

func (b *builder) shfl(i *ptx.Instr) {
	modes := map[ptx.Mode]shflMode{ptx.ModeUp: shflUp, ptx.ModeDown: shflDown, ptx.ModeBfly: shflButterfly, ptx.ModeIdx: shflIndex}
	d, p := pair(&i.Args[0])
	in := inst{fn: shflLanes, x: &extra{shfl: &shflOp{modes[i.Mods.Mode]}}, other: -1}
	in.a = b.src32(&i.Args[1], i.Mods.Type())
	in.b = b.src32(&i.Args[2], ptx.U32)
	in.c = b.src32(&i.Args[3], ptx.U32)
	in.d = b.dst(d, in32)
	if r := b.dstPred(p); r != noReg {
		in.other = int32(r)
	}
	b.gather(i, in, &i.Args[len(i.Args)-1])
}

func (b *builder) vote(i *ptx.Instr) {
	in := inst{other: -1}
	in.a, in.neg = b.srcPred(&i.Args[1])
	k := inPred
	switch i.Mods.Mode {
	case ptx.ModeAll:
		in.fn = voteAll
	case ptx.ModeAny:
		in.fn = voteAny
	case ptx.ModeUni:
		in.fn = voteUni
	default:
		in.fn, k = voteBallot, in32
	}
	in.d = b.dst(&i.Args[0], k)
	b.gather(i, in, &i.Args[len(i.Args)-1])
}

func (b *builder) match(i *ptx.Instr) {
	t := i.Mods.Type()
	in := inst{fn: matchAny, imm: uint64(t.Size()), other: -1}
	if t.Size() == 8 {
		in.a = b.src64(&i.Args[1], t)
	} else {
		in.a = b.src32(&i.Args[1], t)
	}
	d, p := pair(&i.Args[0])
	in.d = b.dst(d, in32)
	if i.Mods.Mode == ptx.ModeAll {
		in.fn = matchAll
		if r := b.dstPred(p); r != noReg {
			in.other = int32(r)
		}
	}
	b.gather(i, in, &i.Args[2])
}

func (b *builder) activemask(i *ptx.Instr) {
	b.emit(inst{kind: kMasked, fn: activeMask, d: b.dst(&i.Args[0], in32), other: -1})
}

// elect chooses the lowest lane of a mask as leader.
func (b *builder) elect(i *ptx.Instr) {
	d, p := pair(&i.Args[0])
	in := inst{kind: kWarpSync, fn: electLanes, d: b.dst(d, in32), other: -1}
	in.e = b.src32(&i.Args[1], ptx.U32)
	if r := b.dstPred(p); r != noReg {
		in.other = int32(r)
	}
	b.emit(in)
}

func (b *builder) redux(i *ptx.Instr) {
	t := i.Mods.Type()
	op, ok := reduxFuncs[i.Mods.Atomic.String()+"."+t.String()]
	if !ok {
		b.fail(i, "")
		return
	}
	in := inst{fn: redux(op), a: b.src32(&i.Args[1], t), other: -1}
	in.d = b.dst(&i.Args[0], in32)
	b.gather(i, in, &i.Args[2])
}

// call decodes a direct or indirect call.
func (b *builder) call(i *ptx.Instr) {
	c := i.Call
	site := &callSite{}
	in := inst{kind: kCall, x: &extra{call: site}, other: -1}
	var params, results []*ptx.Var
	if c.Callee.Kind == ptx.OperandSymbol {
		f := c.Callee.Ref.(*ptx.Func)
		if f.Def == nil {
			b.external(i, f)
			return
		}
		site.fn = b.c.funcs[f.Def]
		params, results = f.Def.Params, f.Def.Results
	} else {
		in.a = b.src64(&c.Callee, ptx.U64)
		switch via := c.Via.Ref.(type) {
		case *ptx.Prototype:
			params, results = via.Params, via.Results
		case *ptx.Targets:
			for _, l := range via.Labels {
				f := definition(l.Func)
				if fn := b.c.funcs[f]; fn != nil {
					site.may = append(site.may, fn)
				}
				params, results = f.Params, f.Results
			}
			if site.may == nil {
				b.fail(i, "none of the targets is defined")
				return
			}
		}
		for _, v := range params {
			site.paramSizes = append(site.paramSizes, int(v.Size()))
		}
		for _, v := range results {
			site.resultSizes = append(site.resultSizes, int(v.Size()))
		}
	}
	for k, v := range params {
		a, ok := b.argument(&c.Args[k], v)
		if !ok {
			b.fail(i, "argument of this kind")
			return
		}
		site.args = append(site.args, a)
	}
	var after []func()
	for k, v := range results {
		o := &c.Results[k]
		switch {
		case o.Kind == ptx.OperandSymbol:
			site.results = append(site.results, actual{offset: b.offsets[o.Ref.(*ptx.Var)]})
		default:
			r := actual{kind: kindOf(v.Type)}
			r.reg = b.dst(o, r.kind)
			site.results = append(site.results, r)
			after = append(after, func() { b.finish(o, r.reg, v.Type) })
		}
	}
	b.emit(in)
	for _, f := range after {
		f()
	}
}

// argument is where the value of an argument for parameter v lies.
func (b *builder) argument(o *ptx.Operand, v *ptx.Var) (actual, bool) {
	if o.Kind == ptx.OperandSymbol {
		if p, ok := o.Ref.(*ptx.Var); ok && p.Space == ptx.SpaceParam {
			off, ok := b.offsets[p]
			return actual{offset: off}, ok
		}
	}
	switch kindOf(v.Type) {
	case in64:
		return actual{kind: in64, reg: b.src64(o, v.Type)}, v.Vec == 0 && !v.Array
	case in32:
		return actual{kind: in32, reg: b.src32(o, v.Type)}, v.Vec == 0 && !v.Array
	}
	return actual{}, false
}

// external decodes the call of a function that no module defines: those of the
// CUDA run-time that the engine knows, or an error.
func (b *builder) external(i *ptx.Instr, f *ptx.Func) {
	switch f.Name {
	case "vprintf":
		b.vprintf(i)
	case "__assertfail", "__assert_fail":
		b.emit(inst{kind: kTrap, x: &extra{detail: "assertion failed"}, other: -1})
	default:
		b.c.fail(i.Call.Callee.Pos, "undefined function '%s'", f.Name)
	}
}
