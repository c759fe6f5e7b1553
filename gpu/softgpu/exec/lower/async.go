package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// cp decodes cp.async. A copy is made at once, which PTX permits: nothing is left to be
// waited for.
func (b *builder) cp(i *ptx.Instr) {
	if i.Mods.HasWord(ptx.Bulk) {
		b.bulk(i)
		return
	}
	switch i.Mods.Mode {
	case ptx.ModeNone:
	case ptx.ModeArrive:
		b.mbarrier(i)
		return
	default:
		return
	}
	to, ok := b.address(i, &i.Args[0])
	if !ok {
		return
	}
	source := *i
	source.Mods.Space = i.AddressSpace(1)
	from, ok := b.address(&source, &i.Args[1])
	if !ok {
		return
	}
	to, from = b.wideBase(to), b.wideBase(from)
	op := &ir.CopyOp{Offset: from.offset, Size: i.Args[2].Value, Source: ir.NoReg}
	if n := len(i.Args); n > 4 || n > 3 && !i.Mods.Has(ptx.Hint) {
		op.Source = b.src32(&i.Args[3], ptx.U32)
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.CopyAsync, Op: ir.OpCopy, A: to.base, B: from.base, D: ir.NoReg, Imm: to.offset, X: &ir.Extra{Copy: op}, Other: -1})
}

// policies are what createpolicy gives, as an H100 does: opaque values, which no instruction here looks at.
var policies = map[ptx.Evict]uint64{ptx.EvictL2Normal: 0x16f0 << 48, ptx.EvictL2First: 0x12f0 << 48, ptx.EvictL2Last: 0x14f0 << 48}

func (b *builder) createpolicy(i *ptx.Instr) {
	x := b.imm64(policies[i.Mods.L2])
	b.lane("mov.64", b.dst(&i.Args[0], ir.In64), x)
}

// mbarrier decodes mbarrier, and the arrival of cp.async.
func (b *builder) mbarrier(i *ptx.Instr) {
	m, args := &i.Mods, i.Args
	op := &ir.MBarrierOp{Operand: ir.NoReg, Size: 4, Parity: m.Has(ptx.Parity), Bytes: m.Has(ptx.ExpectTx), Drop: m.Mode == ptx.ModeArriveDrop}
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.MBarrierLanes, D: ir.NoReg, X: &ir.Extra{MBarrier: op}, Other: -1}
	if m.Mode == ptx.ModePendingCount {
		op.Kind = ir.MBarrierPending
		in.A, in.D = b.src64(&args[1], ptx.B64), b.dst(&args[0], ir.In32)
		b.emit(in)
		return
	}
	result := &sink
	if args[0].Kind != ptx.OperandAddr {
		result, args = &args[0], args[1:]
	}
	at, ok := b.address(i, &args[0])
	if !ok {
		return
	}
	at = b.wideBase(at)
	in.A, in.Imm, in.Space = at.base, at.offset, at.space
	op.Kind = mbarrierKinds[m.Mode]
	if m.HasWord(ptx.CompleteBytes) {
		op.Kind = ir.MBarrierComplete
	}
	if i.Op == ptx.OpCp && !m.Has(ptx.NoInc) {
		op.Kind = ir.MBarrierNothing // it counts itself before it arrives
	}
	waits := op.Kind == ir.MBarrierTest
	switch {
	case waits && !op.Parity:
		op.Operand, op.Size = b.src64(&args[1], ptx.B64), 8
	case len(args) > 1:
		op.Operand = b.src32(&args[1], ptx.U32)
	}
	switch {
	case waits:
		in.D = b.dst(result, ir.InPred)
	case result.Kind == ptx.OperandReg:
		in.D = b.dst(result, ir.In64)
	}
	b.emit(in)
}

var mbarrierKinds = map[ptx.Mode]ir.MBarrierKind{
	ptx.ModeNone: ir.MBarrierExpect, ptx.ModeInit: ir.MBarrierInit, ptx.ModeInval: ir.MBarrierNothing, ptx.ModeArrive: ir.MBarrierArrive,
	ptx.ModeArriveDrop: ir.MBarrierArrive, ptx.ModeTestWait: ir.MBarrierTest, ptx.ModeTryWait: ir.MBarrierTest,
}
