package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// where is a resolved address: a space, and base register plus offset. A frame
// address has no base register: it is an offset in the frame's local memory.
type where struct {
	space  ir.Space
	base   uint32
	wide   bool // base is a 64-bit register
	offset uint64
	frame  bool
	param  bool // offset in the kernel's parameter block, no base register
}

// spaceOf translates a state space; parameters are where the function has them.
func (b *builder) spaceOf(s ptx.Space) ir.Space {
	switch s {
	case ptx.SpaceGlobal, ptx.SpaceConst:
		return ir.SpaceGlobal
	case ptx.SpaceShared, ptx.SpaceSharedCTA:
		return ir.SpaceShared
	case ptx.SpaceSharedCluster:
		return ir.SpaceCluster
	case ptx.SpaceLocal:
		return ir.SpaceLocal
	case ptx.SpaceParam, ptx.SpaceParamEntry, ptx.SpaceParamFunc:
		if b.f.Entry {
			return ir.SpaceParam
		}
		return ir.SpaceLocal
	}
	return ir.SpaceGeneric
}

// address resolves the address operand of an instruction on state space s.
func (b *builder) address(i *ptx.Instr, o *ptx.Operand) (where, bool) {
	at := where{space: b.spaceOf(i.Mods.Space), offset: o.Value}
	if x, ok := b.framed[o]; ok {
		if off, ok := b.offsets[x.v]; ok {
			return where{space: ir.SpaceLocal, frame: true, offset: uint64(off) + x.add}, true
		}
	}
	if reg := o.Reg; reg != ptx.NoReg {
		if other, ok := b.bases[o]; ok {
			reg, at.offset = other.reg, at.offset+other.add
		}
		r := b.regs[reg]
		b.use(reg)
		at.base, at.wide = r.index, r.kind == ir.In64
		if at.space == ir.SpaceGlobal || at.space == ir.SpaceGeneric {
			at = b.wideBase(at)
		}
		return at, true
	}
	v, ok := o.Ref.(*ptx.Var)
	if !ok { // an absolute address
		at.base, at.wide, at.offset = b.imm64(o.Value), true, 0
		return at, true
	}
	switch v.Space {
	case ptx.SpaceGlobal, ptx.SpaceConst:
		r, ok := b.variable(v)
		if !ok {
			b.c.fail(i.Pos, "undefined symbol '%s'", v.Name)
			return at, false
		}
		at.space, at.base, at.wide = ir.SpaceGlobal, r, true
	case ptx.SpaceShared:
		at.space = ir.SpaceShared
		if off, ok := b.c.shared[v]; ok {
			at.base, at.offset = b.shared32(uint32(off)+uint32(o.Value)), 0
			return at, true
		}
		at.base = b.temp32()
		b.emit(ir.Inst{Kind: ir.KLane32, Fn: lane.DynamicShared, Op: ir.OpDynamic, D: at.base, Other: -1})
	default:
		if off, ok := b.params[v]; ok {
			at.space, at.param, at.offset = ir.SpaceParam, true, uint64(off)+o.Value
			if at.offset >= uint64(b.fn.ParamBytes) {
				b.c.fail(i.Pos, "offset %d lies outside the parameters", int64(o.Value))
				return at, false
			}
			return at, true
		}
		off, ok := b.offsets[v]
		if !ok {
			b.c.fail(i.Pos, "'%s' cannot be used here", v.Name)
			return at, false
		}
		at.space, at.frame, at.offset = ir.SpaceLocal, true, uint64(off)+o.Value
	}
	return at, true
}

// addressOf is a 64-bit register with the address of a variable or function,
// in its own state space.
func (b *builder) addressOf(o *ptx.Operand) uint32 {
	switch ref := o.Ref.(type) {
	case *ptx.Func:
		if addr, ok := b.c.data.funcs[definition(ref)]; ok {
			return b.imm64(addr + o.Value)
		}
		b.c.fail(o.Pos, "undefined function '%s'", o.Name)
	case *ptx.Var:
		d := b.temp64()
		if r, ok := b.variable(ref); ok {
			if o.Value == 0 {
				return r
			}
			b.lane("add.u64", d, r, b.imm64(o.Value))
			return d
		}
		if off, ok := b.c.shared[ref]; ok {
			return b.shared64(off + o.Value)
		}
		if off, ok := b.params[ref]; ok {
			return b.imm64(uint64(off) + o.Value)
		}
		if off, ok := b.offsets[ref]; ok {
			b.emit(ir.Inst{Kind: ir.KLane64, Fn: lane.LocalAddress, Op: ir.OpLocalAddr, D: d, Imm: uint64(off) + o.Value, Other: -1})
			return d
		}
		if ref.Space == ptx.SpaceShared && ref.Linkage == ptx.LinkExtern {
			t := b.temp32()
			b.emit(ir.Inst{Kind: ir.KLane32, Fn: lane.DynamicShared, Op: ir.OpDynamic, D: t, Other: -1})
			b.lane("cvt.u64.u32", d, t)
			if o.Value != 0 {
				b.lane("add.u64", d, d, b.imm64(o.Value))
			}
			return d
		}
		b.c.fail(o.Pos, "undefined symbol '%s'", o.Name)
	default:
		b.c.fail(o.Pos, "operand '%s' cannot be used here", o.Name)
	}
	return b.imm64(0)
}

// access emits a load or store of size bytes between r and memory, aligned to
// align bytes.
func (b *builder) access(at where, r uint32, size, align int, write bool) {
	switch {
	case at.param:
		in := ir.Inst{Kind: ir.KLane32, Fn: lane.LoadParam, D: r, Imm: at.offset, C: uint32(size), Other: -1}
		if size >= 4 && at.offset+uint64(size) <= uint64(b.fn.ParamBytes) {
			in.Op = ir.OpParam
		}
		if size == 8 {
			in.Kind = ir.KLane64
		}
		b.emit(in)
	case at.frame:
		b.frameAccess(at, r, size, align, write)
	default:
		fn := lane.AccessFuncs[ir.AccessKey{Size: size, Wide: at.wide, Writes: write}]
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: fn, Op: ir.AccessOp(ir.OpLoad, at.wide, write), D: r, A: at.base, Target: int32(size), Imm: at.offset,
			Align: uint8(align - 1), Space: at.space, Other: -1})
	}
}

// frameAccess is access to a known place of the frame.
func (b *builder) frameAccess(at where, r uint32, size, align int, write bool) {
	if at.offset%uint64(size) == 0 && size >= 4 && at.offset+uint64(size) <= uint64(b.fn.LocalBytes) {
		in := ir.Inst{Kind: ir.KMasked, Fn: lane.StoreFrame, Op: ir.OpStoreFrame, D: r, Imm: at.offset / 4, C: uint32(size), Other: -1}
		if !write {
			in.Kind, in.Fn, in.Op = ir.KLane32, lane.LoadFrame, ir.OpLoadFrame
			if size == 8 {
				in.Kind = ir.KLane64
			}
		}
		b.emit(in)
		return
	}
	t := b.temp64()
	b.emit(ir.Inst{Kind: ir.KLane64, Fn: lane.LocalAddress, Op: ir.OpLocalAddr, D: t, Imm: at.offset, Other: -1})
	b.access(where{space: ir.SpaceLocal, base: t, wide: true}, r, size, align, write)
}

// vector lists the elements of the operand of a load or store.
func vector(o *ptx.Operand) []ptx.Operand {
	if o.Kind == ptx.OperandVector {
		return o.Elems
	}
	return []ptx.Operand{*o}
}

func (b *builder) ld(i *ptx.Instr) {
	t := i.Mods.Type()
	elems := vector(&i.Args[0])
	at, ok := b.address(i, &i.Args[1])
	if !ok {
		return
	}
	if len(elems) > 1 && !at.frame && !at.param {
		at.base = b.keep(at, elems)
	}
	align := t.Size() * len(elems)
	if b.vectorAccess(i, at, elems, t, false) {
		elems = nil
	}
	for n := range elems {
		if elems[n].Kind == ptx.OperandReg || n == 0 {
			b.loadElem(at, &elems[n], t, align)
		}
		align = t.Size() // the rest is aligned if the first is
		at.offset += uint64(t.Size())
	}
	if spins(i) {
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.Spin, Op: ir.OpSpin, Imm: lane.SpinCost, Other: -1})
	}
}

// vectorAccess emits one operation for a load or store of 2 or 4 registers, if
// there is one for it.
func (b *builder) vectorAccess(i *ptx.Instr, at where, elems []ptx.Operand, t ptx.Type, write bool) bool {
	if b.wholeAccess(i, at, elems, t, write) {
		return true
	}
	fn := lane.ElementFuncs[ir.AccessKey{Size: t.Size(), Wide: at.wide, Writes: write}]
	if n := len(elems); fn == nil || n != 2 && n != 4 || n*t.Size() > 16 || at.frame || at.param {
		return false
	}
	for n := range elems {
		if elems[n].Kind != ptx.OperandReg || b.regs[elems[n].Reg].kind != kindOf(t) {
			return false
		}
	}
	regs := [4]uint32{ir.NoReg, ir.NoReg, ir.NoReg, ir.NoReg}
	for n := range elems {
		if reg := elems[n].Reg; write {
			b.use(reg)
			regs[n] = b.regs[reg].index
		} else {
			regs[n] = b.dst(&elems[n], kindOf(t))
		}
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: fn, Op: ir.AccessOp(ir.OpLoads, at.wide, write), Target: int32(t.Size()), D: regs[0], B: regs[1], C: regs[2], E: regs[3], A: at.base, Imm: at.offset,
		Align: uint8(t.Size()*len(elems) - 1), Space: at.space, Other: -1})
	return true
}

// wholeAccess is vectorAccess for elements that are one access.
func (b *builder) wholeAccess(i *ptx.Instr, at where, elems []ptx.Operand, t ptx.Type, write bool) bool {
	fn, n := lane.WholeFuncs[ir.AccessKey{Size: t.Size(), Wide: at.wide, Writes: write}], len(elems)
	if fn == nil || !handsOver(i) || n != 2 && n != 4 || n*t.Size() > 16 || at.frame || at.param {
		return false
	}
	regs := [4]uint32{ir.NoReg, ir.NoReg, ir.NoReg, ir.NoReg}
	for k := range elems {
		switch {
		case !write:
			regs[k] = b.dst(&elems[k], kindOf(t))
		case kindOf(t) == ir.In64:
			regs[k] = b.src64(&elems[k], t)
		default:
			regs[k] = b.src32(&elems[k], t)
		}
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: fn, Op: ir.AccessOp(ir.OpLoads, at.wide, write), Neg: true, Target: int32(t.Size()), D: regs[0], B: regs[1], C: regs[2], E: regs[3],
		A: at.base, Imm: at.offset, Align: uint8(n*t.Size() - 1), Space: at.space, Other: -1})
	for k := range elems {
		if !write {
			b.finish(&elems[k], regs[k], t)
		}
	}
	return true
}

// handsOver reports whether another block may read or write what a load or store accesses at the
// same time, so that the elements of a vector are one access.
func handsOver(i *ptx.Instr) bool {
	switch i.Mods.Order {
	case ptx.OrderVolatile, ptx.OrderRelaxed, ptx.OrderAcquire, ptx.OrderRelease:
		return true
	}
	return i.Mods.Cache == ptx.CacheCG || i.Mods.Cache == ptx.CacheCV || i.Mods.Cache == ptx.CacheWT
}

// keep copies a base register that one of the loaded elements overwrites.
func (b *builder) keep(at where, elems []ptx.Operand) uint32 {
	for n := range elems {
		if elems[n].Kind != ptx.OperandReg {
			continue
		}
		if r := b.regs[elems[n].Reg]; r.index == at.base && (r.kind == ir.In64) == at.wide {
			if at.wide {
				t := b.temp64()
				b.lane("mov.64", t, at.base)
				return t
			}
			t := b.temp32()
			b.lane("mov.32", t, at.base)
			return t
		}
	}
	return at.base
}

func (b *builder) loadElem(at where, o *ptx.Operand, t ptx.Type, align int) {
	r := b.dst(o, kindOf(t))
	b.access(at, r, t.Size(), align, false)
	b.finish(o, r, t)
}

func (b *builder) st(i *ptx.Instr) {
	if i.Mods.Has(ptx.Async) {
		b.async(i, nil)
		return
	}
	t := i.Mods.Type()
	elems := vector(&i.Args[1])
	at, ok := b.address(i, &i.Args[0])
	if !ok {
		return
	}
	if at.param {
		b.fail(i, "parameters of a kernel are read only")
		return
	}
	align := t.Size() * len(elems)
	if b.vectorAccess(i, at, elems, t, true) {
		return
	}
	for n := range elems {
		var r uint32
		if kindOf(t) == ir.In64 {
			r = b.src64(&elems[n], t)
		} else {
			r = b.src32(&elems[n], t)
		}
		b.access(at, r, t.Size(), align, true)
		align = t.Size()
		at.offset += uint64(t.Size())
	}
}

// spins reports whether a load is one that programs wait with.
func spins(i *ptx.Instr) bool {
	switch i.Mods.Order {
	case ptx.OrderVolatile, ptx.OrderRelaxed, ptx.OrderAcquire:
		return i.Mods.Space != ptx.SpaceParam && i.Mods.Space != ptx.SpaceLocal
	}
	return false
}

// wideBase is the base of an address as a 64-bit register.
func (b *builder) wideBase(at where) where {
	switch {
	case at.frame:
		t := b.temp64()
		b.emit(ir.Inst{Kind: ir.KLane64, Fn: lane.LocalAddress, Op: ir.OpLocalAddr, D: t, Imm: at.offset, Other: -1})
		at = where{space: ir.SpaceLocal, base: t, wide: true}
	case at.param:
		at = where{space: ir.SpaceParam, base: b.imm64(at.offset), wide: true}
	case !at.wide:
		// Addresses of 32 bits are zero-extended.
		if at.offset != 0 { // the sum wraps around at 32 bits, as that of a load does
			sum := b.temp32()
			b.lane("add.u32", sum, at.base, b.imm32(uint32(at.offset)))
			at.base, at.offset = sum, 0
		}
		at.base, at.wide = b.widen(at.base, ptx.U32), true
	}
	return at
}

func (b *builder) atom(i *ptx.Instr) {
	t := i.Mods.Type()
	key := i.Mods.Atomic.String() + "."
	if i.Mods.Has(ptx.NoFTZ) {
		key += "noftz."
	}
	op, ok := lane.AtomOf(key+t.String(), t.Size())
	if !ok {
		b.fail(i, "")
		return
	}
	if i.Mods.Vec > 0 {
		b.atomVector(i, op)
		return
	}
	if i.Mods.Has(ptx.Async) {
		b.async(i, op.Update)
		return
	}
	args, dst := i.Args, &sink
	if i.Op == ptx.OpAtom {
		dst, args, op.Result = &i.Args[0], i.Args[1:], i.Args[0].Kind == ptx.OperandReg
	}
	at, ok := b.address(i, &args[0])
	if !ok {
		return
	}
	at = b.wideBase(at)
	src := func(o *ptx.Operand) uint32 {
		if op.Size == 8 {
			return b.src64(o, t)
		}
		return b.src32(o, t)
	}
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.AtomLanes, Op: ir.OpAtom, A: at.base, Imm: at.offset, Space: at.space, Align: uint8(op.Size - 1), C: ir.NoReg, D: ir.NoReg, Other: -1}
	in.B = src(&args[1])
	if i.Mods.Atomic == ptx.AtomicCas {
		in.C = src(&args[2])
	}
	if op.Result {
		in.D = b.dst(dst, kindOf(t))
	}
	in.X = &ir.Extra{Atom: &op}
	b.emit(in)
}

// atomVector decodes an atom or red on a vector: one for each element, after all operands have been
// read.
func (b *builder) atomVector(i *ptx.Instr, op ir.AtomOp) {
	t, args := i.Mods.Type(), i.Args
	var dst []ptx.Operand
	if i.Op == ptx.OpAtom {
		dst, args = i.Args[0].Elems, i.Args[1:]
	}
	at, ok := b.address(i, &args[0])
	if !ok {
		return
	}
	at = b.wideBase(at)
	elems := args[1].Elems
	regs := make([]uint32, len(elems))
	for n := range elems {
		regs[n] = b.temp32()
		b.lane("mov.32", regs[n], b.src32(&elems[n], t))
	}
	for n, r := range regs {
		one := op
		if n == 0 {
			one.Align = op.Size * uint64(len(elems))
		}
		in := ir.Inst{Kind: ir.KMasked, Fn: lane.AtomLanes, Op: ir.OpAtom, A: at.base, Imm: at.offset + uint64(n)*op.Size, Space: at.space, Align: uint8(max(op.Size, one.Align) - 1), B: r, C: ir.NoReg, D: ir.NoReg, Other: -1}
		if dst != nil && dst[n].Kind == ptx.OperandReg {
			one.Result, in.D = true, b.dst(&dst[n], ir.In32)
		}
		in.X = &ir.Extra{Atom: &one}
		b.emit(in)
	}
}

// none is an instruction that changes no result: hints and events.
func (b *builder) none(*ptx.Instr) {}

func (b *builder) fence(*ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.FenceLanes, Op: ir.OpFence, Other: -1})
}

// alloca takes memory from the frame that all lanes share, as much as the lane
// that wants most; it is given back when the function returns.
func (b *builder) alloca(i *ptx.Instr) {
	b.fn.Depth, b.fn.Grows = ir.AnyDepth, true
	size := b.src64(&i.Args[1], ptx.U64)
	align := uint64(16)
	if len(i.Args) > 2 {
		align = max(align, i.Args[2].Value)
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.AllocaLanes, A: size, Imm: align, D: b.dst(&i.Args[0], ir.In64), Other: -1})
}

func (b *builder) stacksave(i *ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KLane64, Fn: lane.SaveStack, D: b.dst(&i.Args[0], ir.In64), Other: -1})
}

func (b *builder) stackrestore(i *ptx.Instr) {
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.RestoreStack, Op: ir.OpRestore, A: b.src64(&i.Args[0], ptx.U64), Other: -1})
}
