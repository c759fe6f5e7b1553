package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

func (b *builder) bra(i *ptx.Instr) {
	if i.Guard.Name == "" {
		b.emit(ir.Inst{Kind: ir.KJump, Target: i.Args[0].Target, Other: -1})
		return
	}
	b.use(i.Guard.Reg)
	next := b.newLabel()
	b.emit(ir.Inst{Kind: ir.KBranch, A: b.regs[i.Guard.Reg].index, Neg: i.Guard.Neg, Target: i.Args[0].Target, Other: next})
	b.place(next)
}

func (b *builder) brx(i *ptx.Instr) {
	list, ok := i.Args[1].Ref.(*ptx.Targets)
	if !ok {
		b.fail(i, "no list of targets")
		return
	}
	x := &ir.Extra{}
	x.Targets = make([]int32, 0, len(list.Labels))
	for k := range list.Labels {
		x.Targets = append(x.Targets, list.Labels[k].Target)
	}
	b.emit(ir.Inst{Kind: ir.KIndexed, A: b.src32(&i.Args[0], ptx.U32), X: x, Other: -1})
}

func (b *builder) end(i *ptx.Instr) {
	k := ir.KRet
	if i.Op == ptx.OpExit {
		k = ir.KExit
	}
	b.leave(k)
}

// leave ends the function or the thread.
func (b *builder) leave(k ir.Kind) {
	for _, r := range b.results {
		b.use(r)
	}
	b.emit(ir.Inst{Kind: k, Other: -1})
}

func (b *builder) trap(i *ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KTrap, X: &ir.Extra{Detail: i.Op.String()}, Other: -1})
}

func (b *builder) nanosleep(i *ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KSleep, A: b.src32(&i.Args[0], ptx.U32), Other: -1})
}

func (b *builder) bar(i *ptx.Instr) {
	m := &i.Mods
	if m.Mode == ptx.ModeWarp {
		b.emit(ir.Inst{Kind: ir.KWarpSync, Fn: lane.Nothing, Op: ir.OpMeet, E: b.src32(&i.Args[0], ptx.U32), Other: -1})
		return
	}
	op := &ir.BarrierOp{Arrive: m.Mode == ptx.ModeArrive, Count: ir.NoReg, Pred: ir.NoReg, Cluster: m.Scope == ptx.ScopeCluster}
	args := i.Args
	in := ir.Inst{Kind: ir.KBarrier, X: &ir.Extra{Barrier: op}, D: ir.NoReg, Other: -1}
	if op.Cluster {
		b.c.prog.Clusters = true
		b.emit(in)
		return
	}
	if m.Mode == ptx.ModeRed {
		op.Pred, op.PredNeg = b.srcPred(&args[len(args)-1])
		args = args[1 : len(args)-1]
	}
	op.ID, op.Number = b.src32(&args[0], ptx.U32), ir.NoReg
	if args[0].Kind == ptx.OperandImm {
		op.Number = uint32(args[0].Value)
	}
	if len(args) > 1 {
		op.Count = b.src32(&args[1], ptx.U32)
	}
	if m.Mode == ptx.ModeRed {
		switch m.Bool {
		case ptx.BoolPopc:
			op.Popc = true
			in.D = b.dst(&i.Args[0], ir.In32)
		case ptx.BoolAnd:
			op.Reduce = ir.BoolAnd
			in.D = b.dst(&i.Args[0], ir.InPred)
		default:
			op.Reduce = ir.BoolOr
			in.D = b.dst(&i.Args[0], ir.InPred)
		}
	}
	b.emit(in)
}

// gather emits an operation that exchanges data between lanes; the .sync forms
// wait for the lanes of their mask.
func (b *builder) gather(i *ptx.Instr, in ir.Inst, mask *ptx.Operand) {
	in.Kind = ir.KMasked
	if i.Mods.Has(ptx.Sync) {
		in.Kind = ir.KWarpSync
		in.E = b.src32(mask, ptx.U32)
	} else {
		in.Op = ir.OpNone
	}
	b.emit(in)
}

func (b *builder) shfl(i *ptx.Instr) {
	modes := map[ptx.Mode]ir.ShflMode{ptx.ModeUp: lane.ShflUp, ptx.ModeDown: lane.ShflDown, ptx.ModeBfly: lane.ShflButterfly, ptx.ModeIdx: lane.ShflIndex}
	d, p := pair(&i.Args[0])
	in := ir.Inst{Fn: lane.ShflLanes, Op: ir.OpShfl, X: &ir.Extra{Shfl: &ir.ShflOp{Mode: modes[i.Mods.Mode]}}, Other: -1}
	in.A = b.src32(&i.Args[1], i.Mods.Type())
	in.B = b.src32(&i.Args[2], ptx.U32)
	in.C = b.src32(&i.Args[3], ptx.U32)
	in.D = b.dst(d, ir.In32)
	if r := b.dstPred(p); r != ir.NoReg {
		in.Other = int32(r)
	}
	b.gather(i, in, &i.Args[len(i.Args)-1])
}

func (b *builder) vote(i *ptx.Instr) {
	in := ir.Inst{Other: -1}
	in.A, in.Neg = b.srcPred(&i.Args[1])
	k := ir.InPred
	switch i.Mods.Mode {
	case ptx.ModeAll:
		in.Fn, in.Op = lane.VoteAll, ir.OpVoteAll
	case ptx.ModeAny:
		in.Fn, in.Op = lane.VoteAny, ir.OpVoteAny
	case ptx.ModeUni:
		in.Fn, in.Op = lane.VoteUni, ir.OpVoteUni
	default:
		in.Fn, in.Op, k = lane.VoteBallot, ir.OpBallot, ir.In32
	}
	in.D = b.dst(&i.Args[0], k)
	b.gather(i, in, &i.Args[len(i.Args)-1])
}

func (b *builder) match(i *ptx.Instr) {
	t := i.Mods.Type()
	in := ir.Inst{Fn: lane.MatchAny, Op: ir.OpMatchAny, Imm: uint64(t.Size()), Other: -1}
	if t.Size() == 8 {
		in.A = b.src64(&i.Args[1], t)
	} else {
		in.A = b.src32(&i.Args[1], t)
	}
	d, p := pair(&i.Args[0])
	in.D = b.dst(d, ir.In32)
	if i.Mods.Mode == ptx.ModeAll {
		in.Fn, in.Op = lane.MatchAll, ir.OpMatchAll
		if r := b.dstPred(p); r != ir.NoReg {
			in.Other = int32(r)
		}
	}
	b.gather(i, in, &i.Args[2])
}

func (b *builder) activemask(i *ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.ActiveMask, Op: ir.OpActiveMask, D: b.dst(&i.Args[0], ir.In32), Other: -1})
}

// elect chooses the lowest lane of a mask as leader.
func (b *builder) elect(i *ptx.Instr) {
	d, p := pair(&i.Args[0])
	in := ir.Inst{Kind: ir.KWarpSync, Fn: lane.ElectLanes, Op: ir.OpElect, D: b.dst(d, ir.In32), Other: -1}
	in.E = b.src32(&i.Args[1], ptx.U32)
	if r := b.dstPred(p); r != ir.NoReg {
		in.Other = int32(r)
	}
	b.emit(in)
}

func (b *builder) redux(i *ptx.Instr) {
	t := i.Mods.Type()
	op, ok := lane.ReduxOps[i.Mods.Atomic.String()+"."+t.String()]
	if !ok {
		b.fail(i, "")
		return
	}
	in := ir.Inst{Fn: lane.Redux(op.Fn), Op: ir.OpRedux, Imm: uint64(op.Kind), A: b.src32(&i.Args[1], t), Other: -1}
	in.D = b.dst(&i.Args[0], ir.In32)
	b.gather(i, in, &i.Args[2])
}

// call decodes a direct or indirect call.
func (b *builder) call(i *ptx.Instr) {
	c := i.Call
	site := &ir.CallSite{}
	in := ir.Inst{Kind: ir.KCall, X: &ir.Extra{Call: site}, Other: -1}
	var params, results []*ptx.Var
	if c.Callee.Kind == ptx.OperandSymbol {
		f := c.Callee.Ref.(*ptx.Func)
		if f.Def == nil {
			b.external(i, f)
			return
		}
		site.Fn = b.c.funcs[f.Def]
		params, results = f.Def.Params, f.Def.Results
	} else {
		in.A = b.src64(&c.Callee, ptx.U64)
		switch via := c.Via.Ref.(type) {
		case *ptx.Prototype:
			params, results = via.Params, via.Results
		case *ptx.Targets:
			site.May = make([]*ir.Function, 0, len(via.Labels))
			b.spend(8 * len(via.Labels))
			for _, l := range via.Labels {
				f := definition(l.Func)
				if fn := b.c.funcs[f]; fn != nil {
					site.May = append(site.May, fn)
				}
				params, results = f.Params, f.Results
			}
			if len(site.May) == 0 {
				b.fail(i, "none of the targets is defined")
				return
			}
		}
		for _, v := range params {
			site.ParamSizes = append(site.ParamSizes, int(v.Size()))
		}
		for _, v := range results {
			site.ResultSizes = append(site.ResultSizes, int(v.Size()))
		}
	}
	for k, v := range params {
		a, ok := b.argument(&c.Args[k], v)
		if !ok {
			b.fail(i, "argument of this kind")
			return
		}
		site.Args = append(site.Args, a)
	}
	var after []func()
	for k, v := range results {
		o := &c.Results[k]
		switch {
		case o.Kind == ptx.OperandSymbol:
			site.Results = append(site.Results, ir.Actual{Offset: b.offsets[o.Ref.(*ptx.Var)]})
		default:
			r := ir.Actual{Kind: kindOf(v.Type)}
			r.Reg = b.dst(o, r.Kind)
			site.Results = append(site.Results, r)
			after = append(after, func() { b.finish(o, r.Reg, v.Type) })
		}
	}
	b.emit(in)
	for _, f := range after {
		f()
	}
}

// argument is where the value of an argument for parameter v lies.
func (b *builder) argument(o *ptx.Operand, v *ptx.Var) (ir.Actual, bool) {
	if o.Kind == ptx.OperandSymbol {
		if p, ok := o.Ref.(*ptx.Var); ok && p.Space == ptx.SpaceParam {
			off, ok := b.offsets[p]
			return ir.Actual{Offset: off}, ok
		}
	}
	switch kindOf(v.Type) {
	case ir.In64:
		return ir.Actual{Kind: ir.In64, Reg: b.src64(o, v.Type)}, v.Vec == 0 && !v.Array
	case ir.In32:
		return ir.Actual{Kind: ir.In32, Reg: b.src32(o, v.Type)}, v.Vec == 0 && !v.Array
	}
	return ir.Actual{}, false
}

// external decodes the call of a function that no module defines: those of the
// CUDA run-time that the engine knows, or an error.
func (b *builder) external(i *ptx.Instr, f *ptx.Func) {
	switch f.Name {
	case "vprintf":
		b.vprintf(i)
	case "malloc":
		b.malloc(i, f)
	case "free":
		b.free(i, f)
	case "__assertfail", "__assert_fail":
		b.assertion(i, f)
	default:
		if _, ok := deviceRuntime[f.Name]; ok {
			b.runtimeCall(i, f)
			return
		}
		b.c.fail(i.Call.Callee.Pos, "undefined function '%s'", f.Name)
	}
}
