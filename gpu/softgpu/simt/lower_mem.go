package simt

import (
	"sync/atomic"

	"pvdrm/gpu/ptx"
)

// where is a resolved address: a space, and base register plus offset. A frame
// address has no base register: it is an offset in the frame's local memory.
type where struct {
	space  space
	base   uint32
	wide   bool // base is a 64-bit register
	offset uint64
	frame  bool
	param  bool // offset in the kernel's parameter block, no base register
}

// spaceOf translates a state space; parameters are where the function has them.
func (b *builder) spaceOf(s ptx.Space) space {
	switch s {
	case ptx.SpaceGlobal, ptx.SpaceConst:
		return spaceGlobal
	case ptx.SpaceShared, ptx.SpaceSharedCTA:
		return spaceShared
	case ptx.SpaceLocal:
		return spaceLocal
	case ptx.SpaceParam, ptx.SpaceParamEntry, ptx.SpaceParamFunc:
		if b.f.Entry {
			return spaceParam
		}
		return spaceLocal
	}
	return spaceGeneric
}

// address resolves the address operand of an instruction on state space s.
func (b *builder) address(i *ptx.Instr, o *ptx.Operand) (where, bool) {
	at := where{space: b.spaceOf(i.Mods.Space), offset: o.Value}
	if o.Reg != ptx.NoReg {
		r := b.regs[o.Reg]
		b.use(o.Reg)
		at.base, at.wide = r.index, r.kind == in64
		if !at.wide && (at.space == spaceGlobal || at.space == spaceGeneric) {
			at.base, at.wide = b.widen(r.index, ptx.U32), true
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
		off, ok := b.c.prog.data.offsets[v]
		if !ok {
			b.c.fail(i.Pos, "undefined symbol '%s'", v.Name)
			return at, false
		}
		at.space, at.base, at.wide = spaceGlobal, b.dataAddr(off), true
	case ptx.SpaceShared:
		at.space = spaceShared
		if off, ok := b.c.shared[v]; ok {
			at.base, at.offset = b.imm32(uint32(off)+uint32(o.Value)), 0
			return at, true
		}
		at.base = b.temp32()
		b.emit(inst{kind: kLane32, fn: dynamicShared, d: at.base, other: -1})
	default:
		if off, ok := b.params[v]; ok {
			at.space, at.param, at.offset = spaceParam, true, uint64(off)+o.Value
			if at.offset >= uint64(b.fn.paramBytes) {
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
		at.space, at.frame, at.offset = spaceLocal, true, uint64(off)+o.Value
	}
	return at, true
}

// addressOf is a 64-bit register with the address of a variable or function,
// in its own state space.
func (b *builder) addressOf(o *ptx.Operand) uint32 {
	switch ref := o.Ref.(type) {
	case *ptx.Func:
		if addr, ok := b.c.prog.data.funcs[definition(ref)]; ok {
			return b.imm64(addr + o.Value)
		}
		b.c.fail(o.Pos, "undefined function '%s'", o.Name)
	case *ptx.Var:
		d := b.temp64()
		if off, ok := b.c.prog.data.offsets[ref]; ok {
			r := b.dataAddr(off)
			if o.Value == 0 {
				return r
			}
			b.lane("add.u64", d, r, b.imm64(o.Value))
			return d
		}
		if off, ok := b.c.shared[ref]; ok {
			return b.imm64(off + o.Value)
		}
		if off, ok := b.params[ref]; ok {
			return b.imm64(uint64(off) + o.Value)
		}
		if off, ok := b.offsets[ref]; ok {
			b.emit(inst{kind: kLane64, fn: localAddress, d: d, imm: uint64(off) + o.Value, other: -1})
			return d
		}
		if ref.Space == ptx.SpaceShared && ref.Linkage == ptx.LinkExtern {
			t := b.temp32()
			b.emit(inst{kind: kLane32, fn: dynamicShared, d: t, other: -1})
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

// dynamicShared is the offset of the dynamic .shared memory.
func dynamicShared(w *warp, in *inst) {
	fill(&w.r32[in.d], w.block.kernel.fn.dynShared, allLanes, allLanes)
}

// localAddress is the address of imm bytes into the frame's local memory.
func localAddress(w *warp, in *inst) {
	fill(&w.r64[in.d], 4*uint64(w.frame.base)+in.imm, allLanes, allLanes)
}

// access emits a load or store of size bytes between r and memory, aligned to
// align bytes.
func (b *builder) access(at where, r uint32, size, align int, write bool) {
	switch {
	case at.param:
		in := inst{kind: kLane32, fn: loadParam, d: r, imm: at.offset, c: uint32(size), other: -1}
		if size >= 4 && at.offset+uint64(size) <= uint64(b.fn.paramBytes) {
			in.op = opParam
		}
		if size == 8 {
			in.kind = kLane64
		}
		b.emit(in)
	case at.frame:
		b.frameAccess(at, r, size, align, write)
	default:
		fn := accessFuncs[accessKey{size, at.wide, write}]
		b.emit(inst{kind: kMasked, fn: fn, op: accessOp(opLoad, at.wide, write), d: r, a: at.base, target: int32(size), imm: at.offset,
			align: uint8(align - 1), space: at.space, other: -1})
	}
}

// frameAccess is access to a known place of the frame.
func (b *builder) frameAccess(at where, r uint32, size, align int, write bool) {
	if at.offset%uint64(size) == 0 && size >= 4 && at.offset+uint64(size) <= uint64(b.fn.localBytes) {
		in := inst{kind: kMasked, fn: storeFrame, d: r, imm: at.offset / 4, c: uint32(size), other: -1}
		if !write {
			in.kind, in.fn = kLane32, loadFrame
			if size == 8 {
				in.kind = kLane64
			}
		}
		b.emit(in)
		return
	}
	t := b.temp64()
	b.emit(inst{kind: kLane64, fn: localAddress, d: t, imm: at.offset, other: -1})
	b.access(where{space: spaceLocal, base: t, wide: true}, r, size, align, write)
}

// loadParam reads c bytes at imm of the kernel's parameters.
func loadParam(w *warp, in *inst) {
	p := w.block.params
	if uint64(len(p)) < in.imm+uint64(in.c) {
		w.failAddress(w.first(), lostAddress, in.imm, false, spaceNames[spaceParam])
	}
	x := loadBytes(p[in.imm:], uint64(in.c))
	if in.c == 8 {
		fill(&w.r64[in.d], x, allLanes, allLanes)
	} else {
		fill(&w.r32[in.d], uint32(x), allLanes, allLanes)
	}
}

// loadFrame and storeFrame move the words from row imm of the frame on.
func loadFrame(w *warp, in *inst) {
	row := w.frame.base + int(in.imm)
	if in.c == 4 {
		w.r32[in.d] = w.local[row]
		return
	}
	d, lo, hi := &w.r64[in.d], &w.local[row], &w.local[row+1]
	for i := range d {
		d[i] = uint64(lo[i]) | uint64(hi[i])<<32
	}
}

func storeFrame(w *warp, in *inst) {
	row := w.frame.base + int(in.imm)
	if in.c == 4 {
		copyLanes(&w.local[row], &w.r32[in.d], w.mask, w.live)
		return
	}
	s, lo, hi := &w.r64[in.d], &w.local[row], &w.local[row+1]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		lo[i], hi[i] = uint32(s[i]), uint32(s[i]>>32)
	}
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
	if b.vectorAccess(at, elems, t, false) {
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
		b.emit(inst{kind: kMasked, fn: spin, other: -1})
	}
}

// vectorAccess emits one operation for a load or store of 2 or 4 registers, if
// there is one for it.
func (b *builder) vectorAccess(at where, elems []ptx.Operand, t ptx.Type, write bool) bool {
	fn := elementFuncs[accessKey{t.Size(), at.wide, write}]
	if n := len(elems); fn == nil || n != 2 && n != 4 || at.frame || at.param {
		return false
	}
	for n := range elems {
		if elems[n].Kind != ptx.OperandReg || b.regs[elems[n].Reg].kind != kindOf(t) {
			return false
		}
	}
	regs := [4]uint32{noReg, noReg, noReg, noReg}
	for n := range elems {
		if reg := elems[n].Reg; write {
			b.use(reg)
			regs[n] = b.regs[reg].index
		} else {
			regs[n] = b.dst(&elems[n], kindOf(t))
		}
	}
	b.emit(inst{kind: kMasked, fn: fn, op: accessOp(opLoads, at.wide, write), target: int32(t.Size()), d: regs[0], b: regs[1], c: regs[2], e: regs[3], a: at.base, imm: at.offset,
		align: uint8(t.Size()*len(elems) - 1), space: at.space, other: -1})
	return true
}

// accessOp is the opcode of an access, of those that follow a load with a narrow address.
func accessOp(load opcode, wide, write bool) opcode {
	op := load
	if wide {
		op += opLoadWide - opLoad
	}
	if write {
		op += opStore - opLoad
	}
	return op
}

// keep copies a base register that one of the loaded elements overwrites.
func (b *builder) keep(at where, elems []ptx.Operand) uint32 {
	for n := range elems {
		if elems[n].Kind != ptx.OperandReg {
			continue
		}
		if r := b.regs[elems[n].Reg]; r.index == at.base && (r.kind == in64) == at.wide {
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
	if b.vectorAccess(at, elems, t, true) {
		return
	}
	for n := range elems {
		var r uint32
		if kindOf(t) == in64 {
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

// spin makes the turn of the warp shorter.
func spin(w *warp, _ *inst) { w.budget -= spinCost }

// wideBase is the base of an address as a 64-bit register.
func (b *builder) wideBase(at where) where {
	switch {
	case at.frame:
		t := b.temp64()
		b.emit(inst{kind: kLane64, fn: localAddress, d: t, imm: at.offset, other: -1})
		at = where{space: spaceLocal, base: t, wide: true}
	case at.param:
		at = where{space: spaceParam, base: b.imm64(at.offset), wide: true}
	case !at.wide:
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
	update, ok := updates[key+t.String()]
	if !ok {
		b.fail(i, "")
		return
	}
	args, op := i.Args, &atomOp{size: uint64(t.Size()), update: update, global: globalUpdates[key+t.String()]}
	dst := &sink
	if i.Op == ptx.OpAtom {
		dst, args, op.result = &i.Args[0], i.Args[1:], i.Args[0].Kind == ptx.OperandReg
	}
	at, ok := b.address(i, &args[0])
	if !ok {
		return
	}
	at = b.wideBase(at)
	src := func(o *ptx.Operand) uint32 {
		if op.size == 8 {
			return b.src64(o, t)
		}
		return b.src32(o, t)
	}
	in := inst{kind: kMasked, fn: atomLanes, a: at.base, imm: at.offset, space: at.space, c: noReg, d: noReg, other: -1}
	in.b = src(&args[1])
	if len(args) > 2 {
		in.c = src(&args[2])
	}
	if op.result {
		in.d = b.dst(dst, kindOf(t))
	}
	in.x = &extra{atom: op}
	b.emit(in)
}

// cvta converts between a state space and the generic one.
func (b *builder) cvta(i *ptx.Instr) {
	base := map[space]uint64{spaceShared: SharedBase, spaceLocal: LocalBase, spaceParam: ParamBase}[b.spaceOf(i.Mods.Space)]
	if i.Mods.Type() != ptx.U64 {
		b.fail(i, "32-bit addresses")
		return
	}
	a := b.src64(&i.Args[1], ptx.U64)
	d := b.dst(&i.Args[0], in64)
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
	in := inst{kind: kMasked, fn: isSpace, a: a, space: b.spaceOf(i.Mods.Space), other: -1}
	if i.Mods.Space == ptx.SpaceConst {
		in.space = spaceConst
	}
	in.d = b.dst(&i.Args[0], inPred)
	b.emit(in)
}

// none is an instruction that changes no result: hints and events.
func (b *builder) none(*ptx.Instr) {}

func (b *builder) fence(*ptx.Instr) {
	b.emit(inst{kind: kMasked, fn: fenceLanes, other: -1})
}

// fenceLanes orders the warp's accesses before and after it for other workers;
// an atomic read-modify-write does that.
func fenceLanes(w *warp, _ *inst) { atomic.AddUint32(&w.worker.fence, 1) }

// alloca takes memory from the frame that all lanes share, as much as the lane
// that wants most; it is given back when the function returns.
func (b *builder) alloca(i *ptx.Instr) {
	size := b.src64(&i.Args[1], ptx.U64)
	align := uint64(16)
	if len(i.Args) > 2 {
		align = max(align, i.Args[2].Value)
	}
	b.emit(inst{kind: kMasked, fn: allocaLanes, a: size, imm: align, d: b.dst(&i.Args[0], in64), other: -1})
}

func (b *builder) stacksave(i *ptx.Instr) {
	b.emit(inst{kind: kLane64, fn: saveStack, d: b.dst(&i.Args[0], in64), other: -1})
}

func (b *builder) stackrestore(i *ptx.Instr) {
	b.emit(inst{kind: kMasked, fn: restoreStack, a: b.src64(&i.Args[0], ptx.U64), other: -1})
}
