package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/tensormap"
)

// bulkAddress is operand n of i, an address in a state space.
func (b *builder) bulkAddress(i *ptx.Instr, n int, s ptx.Space) (ir.Address, bool) {
	in := *i
	in.Mods.Space = s
	at, ok := b.address(&in, &i.Args[n])
	if !ok {
		return ir.Address{}, false
	}
	at = b.wideBase(at)
	return ir.Address{Reg: at.base, Offset: at.offset, Space: at.space}, true
}

// bulk decodes cp.async.bulk, cp.reduce.async.bulk and what goes with them. Copies are made at once: who
// waits for them finds them complete, and PTX promises nothing to who does not.
func (b *builder) bulk(i *ptx.Instr) {
	m := &i.Mods
	if m.Mode != ptx.ModeNone {
		return // groups are complete
	}
	op := &ir.BulkOp{Size: ir.NoReg, Mask: ir.NoReg, Bar: ir.Address{Reg: ir.NoReg}, To: ir.Address{Reg: ir.NoReg}}
	next, ok := 0, true
	address := func(to *ir.Address, s ptx.Space) {
		if ok {
			*to, ok = b.bulkAddress(i, next, s)
			next++
		}
	}
	tensor, loads := m.HasWord(ptx.Tensor), m.HasWord(ptx.FromGlobal)
	switch {
	case tensor && m.HasWord(ptx.Prefetched):
		op.Kind = ir.BulkPrefetch
		ok = b.tensorMap(i, op, next)
		next++
	case tensor && loads:
		op.Kind = ir.BulkLoad
		address(&op.To, m.Space)
		ok = ok && b.tensorMap(i, op, next)
		next++
	case tensor:
		op.Kind = ir.BulkStore
		ok = b.tensorMap(i, op, next)
		next++
		address(&op.From, ptx.SpaceSharedCTA)
	case m.HasWord(ptx.Prefetched):
		b.aligned(i, 16)
		return
	default:
		address(&op.To, m.Space)
		address(&op.From, i.AddressSpace(1))
		op.Size = b.src32(&i.Args[next], ptx.U32)
		next++
	}
	if m.HasWord(ptx.TxBytes) {
		address(&op.Bar, m.Space)
	}
	if !ok {
		return
	}
	if m.HasWord(ptx.Im2col) {
		op.Im2col = true
		for n, o := range vector(&i.Args[next]) {
			op.Offsets[n] = b.src32(&o, ptx.U16)
		}
		next++
	}
	op.Im2col = op.Im2col || m.HasWord(ptx.Im2colNoOffs)
	if m.HasWord(ptx.Multicast) {
		op.Mask = b.src32(&i.Args[next], ptx.U16)
	}
	b.bulkAtoms(op, m, tensor)
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.BulkLanes, D: ir.NoReg, X: &ir.Extra{Bulk: op}, Other: -1})
}

// prefetch decodes prefetch, of which only an unaligned tensor map is an error.
func (b *builder) prefetch(i *ptx.Instr) {
	if i.Mods.HasWord(ptx.TensormapOf) {
		b.aligned(i, tensormap.Align)
	}
}

// aligned checks the address of a hint, which reads nothing.
func (b *builder) aligned(i *ptx.Instr, align uint64) {
	if at, ok := b.bulkAddress(i, 0, i.Mods.Space); ok {
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.AlignedLanes, A: at.Reg, Imm: at.Offset, Target: int32(align), Space: at.Space, D: ir.NoReg, Other: -1})
	}
}

// tensorMap decodes operand n, [map, {coordinates}].
func (b *builder) tensorMap(i *ptx.Instr, op *ir.BulkOp, n int) (ok bool) {
	if op.Map, ok = b.bulkAddress(i, n, ptx.SpaceGeneric); !ok {
		return false
	}
	op.Rank = i.Mods.Geometry.Axes()
	for k, o := range i.Args[n].Coordinates() {
		op.At[k] = b.src32(&o, ptx.S32)
	}
	return true
}

// bulkAtoms finds the operations of a reduction.
func (b *builder) bulkAtoms(op *ir.BulkOp, m *ptx.Mods, tensor bool) {
	switch {
	case !m.HasWord(ptx.Reduced):
	case tensor:
		op.Atoms = lane.TensorAtoms[m.Atomic.String()]
	default:
		op.Atom = lane.BulkAtom(m.Atomic.String(), m.Type().String(), m.Type().Size())
	}
}

// tensormap decodes tensormap.replace and tensormap.cp_fenceproxy.
func (b *builder) tensormap(i *ptx.Instr) {
	m := &i.Mods
	if m.HasWord(ptx.CopyFence) {
		op := &ir.BulkOp{Mask: ir.NoReg, Bar: ir.Address{Reg: ir.NoReg}, Size: b.imm32(tensormap.Size)}
		var ok, also bool
		op.To, ok = b.bulkAddress(i, 0, ptx.SpaceGlobal)
		op.From, also = b.bulkAddress(i, 1, ptx.SpaceSharedCTA)
		if ok && also {
			b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.BulkLanes, D: ir.NoReg, X: &ir.Extra{Bulk: op}, Other: -1})
		}
		return
	}
	at, ok := b.bulkAddress(i, 0, m.Space)
	if !ok {
		return
	}
	op, args := &ir.ReplaceOp{Size: 4}, i.Args[1:]
	for word, field := range replacedFields {
		if m.HasWord(word) {
			op.Field = field
		}
	}
	if len(args) == 2 {
		op.Ord, args = int(args[0].Value), args[1:]
	}
	if m.Type() == ptx.B64 {
		op.Value, op.Size = b.src64(&args[0], ptx.B64), 8
	} else {
		op.Value = b.src32(&args[0], ptx.B32)
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.ReplaceLanes, A: at.Reg, Imm: at.Offset, Space: at.Space, D: ir.NoReg, X: &ir.Extra{Replace: op}, Other: -1})
}

var replacedFields = map[ptx.Words]tensormap.Field{
	ptx.FieldAddress: tensormap.FieldAddress, ptx.FieldRank: tensormap.FieldRank, ptx.FieldBox: tensormap.FieldBox, ptx.FieldDim: tensormap.FieldDim,
	ptx.FieldStride: tensormap.FieldStride, ptx.FieldStep: tensormap.FieldStep, ptx.FieldType: tensormap.FieldType,
	ptx.FieldInterleave: tensormap.FieldInterleave, ptx.FieldSwizzle: tensormap.FieldSwizzle, ptx.FieldFill: tensormap.FieldFill,
}
