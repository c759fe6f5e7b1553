package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// sharedConst is an address in .shared, relative to the window of the block.
type sharedConst struct {
	address uint64
	wide    bool // in a 64-bit register
}

// shared32 is a register with an address in .shared of the block.
func (b *builder) shared32(address uint32) uint32 {
	return kept(b, b.shared, sharedConst{address: uint64(address)}, 16, 24, b.new32, func(r uint32) {
		b.fn.Shared32 = append(b.fn.Shared32, len(b.fn.Const32))
		b.fn.Const32 = append(b.fn.Const32, ir.Const32{Reg: r, Value: address})
	})
}

// shared64 is shared32 for a 64-bit register.
func (b *builder) shared64(address uint64) uint32 {
	return kept(b, b.shared, sharedConst{address: address, wide: true}, 24, 24, b.new64, func(r uint32) {
		b.fn.Shared64 = append(b.fn.Shared64, len(b.fn.Const64))
		b.fn.Const64 = append(b.fn.Const64, ir.Const64{Reg: r, Value: address})
	})
}

func (b *builder) mapa(i *ptx.Instr) {
	rank := b.src32(&i.Args[2], ptx.U32)
	if i.Mods.Type() == ptx.U32 {
		a := b.src32(&i.Args[1], ptx.U32)
		b.emit(ir.Inst{Kind: ir.KLane32, Fn: lane.MapRank32, D: b.dst(&i.Args[0], ir.In32), A: a, B: rank, Other: -1})
		return
	}
	a := b.src64(&i.Args[1], ptx.U64)
	b.emit(ir.Inst{Kind: ir.KLane64, Fn: lane.MapRank64, D: b.dst(&i.Args[0], ir.In64), A: a, B: rank, Other: -1})
}

func (b *builder) getctarank(i *ptx.Instr) {
	in := ir.Inst{Kind: ir.KLane32, Other: -1}
	if i.Mods.Type() == ptx.U32 {
		in.Fn, in.A = lane.RankOf32, b.src32(&i.Args[1], ptx.U32)
	} else {
		in.Fn, in.A = lane.RankOf64, b.src64(&i.Args[1], ptx.U64)
	}
	in.D = b.dst(&i.Args[0], ir.In32)
	b.emit(in)
}

// async decodes st.async and, with an update, red.async.
func (b *builder) async(i *ptx.Instr, update ir.UpdateFunc) {
	t := i.Mods.Type()
	to, ok := b.address(i, &i.Args[0])
	if !ok {
		return
	}
	bar, ok := b.address(i, &i.Args[2])
	if !ok {
		return
	}
	to, bar = b.wideBase(to), b.wideBase(bar)
	op := &ir.AsyncOp{Size: uint64(t.Size()), Barrier: bar.base, Offset: bar.offset, Update: update}
	for _, o := range vector(&i.Args[1]) {
		if kindOf(t) == ir.In64 {
			op.Regs[op.Count] = b.src64(&o, t)
		} else {
			op.Regs[op.Count] = b.src32(&o, t)
		}
		op.Count++
	}
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.AsyncLanes, A: to.base, Imm: to.offset, Space: to.space, D: ir.NoReg, X: &ir.Extra{Async: op}, Other: -1}
	if i.Mods.Space == ptx.SpaceSharedCluster {
		in.Space = ir.SpaceCluster // a variable is in .shared
	}
	b.emit(in)
}

// cvta converts between a state space and the generic one.
func (b *builder) cvta(i *ptx.Instr) {
	base := map[ir.Space]uint64{ir.SpaceShared: tlb.SharedBase, ir.SpaceCluster: tlb.SharedBase, ir.SpaceLocal: tlb.LocalBase, ir.SpaceParam: tlb.ParamBase}[b.spaceOf(i.Mods.Space)]
	if i.Mods.Type() != ptx.U64 {
		if base != 0 {
			b.fail(i, "32-bit addresses")
			return
		}
		b.lane("mov.32", b.dst(&i.Args[0], ir.In32), b.src32(&i.Args[1], ptx.U32))
		return
	}
	a := b.src64(&i.Args[1], ptx.U64)
	d := b.dst(&i.Args[0], ir.In64)
	switch {
	case base == 0:
		b.lane("mov.64", d, a)
	case i.Mods.Has(ptx.To):
		b.lane("sub.u64", d, a, b.imm64(base))
	default:
		b.lane("add.u64", d, a, b.imm64(base))
	}
}

func (b *builder) isspacep(i *ptx.Instr) {
	a := b.src64(&i.Args[1], ptx.U64)
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.IsSpace, A: a, Space: b.spaceOf(i.Mods.Space), Other: -1}
	if i.Mods.Space == ptx.SpaceConst {
		in.Space = ir.SpaceConst
	}
	in.D = b.dst(&i.Args[0], ir.InPred)
	b.emit(in)
}
