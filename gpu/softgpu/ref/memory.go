package ref

import (
	"encoding/binary"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

// bytes returns the memory of one access in a state space (section 5.1).
func (t *thread) bytes(s ptx.Space, addr, size uint64, write bool) []byte {
	bad := func(cause gpu.LostCause) {
		e := t.lost(cause, "")
		e.Addr, e.Write = addr, write
		panic(e)
	}
	if s == ptx.SpaceGeneric {
		s, addr = window(addr)
	}
	if addr%size != 0 {
		bad(gpu.LostAlign)
	}
	var memory []byte
	at := addr // in it
	switch t.where(s) {
	case ptx.SpaceShared, ptx.SpaceSharedCluster:
		rank := addr >> rankShift
		switch blocks := t.b.cluster.blocks; {
		case rank >= uint64(len(blocks)) || blocks[rank].live == 0:
			bad(gpu.LostAddress)
		case t.where(s) == ptx.SpaceShared && rank != t.b.rank:
			bad(gpu.LostInstruction)
		default:
			memory = blocks[rank].shared
		}
		at &= 1<<rankShift - 1
	case ptx.SpaceLocal:
		memory = t.local
	case ptx.SpaceParam:
		memory = t.b.launch.Params
		if write {
			bad(gpu.LostAddress)
		}
	default:
		page, base, prot, ok := t.b.space.Lookup(addr)
		if !ok || write && prot&gpu.ProtWrite == 0 || !write && prot&gpu.ProtRead == 0 {
			bad(gpu.LostAddress)
		}
		return page[addr-base:][:size]
	}
	if at >= uint64(len(memory)) || uint64(len(memory))-at < size {
		bad(gpu.LostAddress)
	}
	return memory[at:][:size]
}

// rankShift is where addresses in .shared have the number of their block in its cluster.
const rankShift = exec.ClusterShift

// window splits a generic address (section 5.1, cvta).
func window(addr uint64) (ptx.Space, uint64) {
	switch addr &^ (exec.WindowSize - 1) {
	case exec.SharedBase:
		return ptx.SpaceSharedCluster, addr - exec.SharedBase
	case exec.LocalBase:
		return ptx.SpaceLocal, addr - exec.LocalBase
	case exec.ParamBase:
		return ptx.SpaceParamEntry, addr - exec.ParamBase
	}
	return ptx.SpaceGlobal, addr
}

// where reduces a state space to .global, .shared, .shared::cluster, .local or .param, the
// parameters of the kernel. Parameters of functions lie in local memory.
func (t *thread) where(s ptx.Space) ptx.Space {
	switch s {
	case ptx.SpaceShared, ptx.SpaceSharedCTA:
		return ptx.SpaceShared
	case ptx.SpaceSharedCluster:
		return ptx.SpaceSharedCluster
	case ptx.SpaceLocal:
		return ptx.SpaceLocal
	case ptx.SpaceParamEntry:
		return ptx.SpaceParam
	case ptx.SpaceParam, ptx.SpaceParamFunc:
		if t.fn.f.Entry {
			return ptx.SpaceParam
		}
		return ptx.SpaceLocal
	}
	return ptx.SpaceGlobal
}

// address evaluates [a]: a register, a variable or a number, plus an offset.
func (t *thread) address(i *ptx.Instr, o *ptx.Operand) (ptx.Space, uint64) {
	if o.Reg != ptx.NoReg {
		addr := t.regs[o.Reg] + o.Value
		if t.fn.f.Regs[o.Reg].Type.Bits() == 32 {
			addr = uint64(uint32(addr)) // the sum wraps in the register's width
		}
		return i.Mods.Space, addr
	}
	v, ok := o.Ref.(*ptx.Var)
	if !ok {
		return i.Mods.Space, o.Value
	}
	s, addr := t.variable(v)
	return s, addr + o.Value
}

// variable is the address of a variable in its state space.
func (t *thread) variable(v *ptx.Var) (ptx.Space, uint64) {
	switch v.Space {
	case ptx.SpaceGlobal, ptx.SpaceConst:
		return ptx.SpaceGlobal, t.b.k.prog.base + t.b.k.prog.offsets[v]
	case ptx.SpaceShared:
		return ptx.SpaceShared, t.b.k.shared[v] + t.b.rank<<rankShift
	}
	if t.fn.f.Entry && isParam(t.fn.f, v) {
		return ptx.SpaceParamEntry, t.fn.offsets[v]
	}
	return ptx.SpaceLocal, t.base + t.fn.offsets[v]
}

func isParam(f *ptx.Func, v *ptx.Var) bool {
	for _, p := range f.Params {
		if p == v {
			return true
		}
	}
	return false
}

// elements are the registers of a vector operand, or the one of a plain one.
func elements(o *ptx.Operand) []ptx.Operand {
	if o.Kind == ptx.OperandVector {
		return o.Elems
	}
	return []ptx.Operand{*o}
}

// read and write move up to 8 bytes of memory.

func read(m []byte) uint64 {
	var word [8]byte
	copy(word[:], m)
	return binary.LittleEndian.Uint64(word[:])
}

func write(m []byte, x uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], x)
	copy(m, word[:])
}

// load is ld (9.7.8).
func (t *thread) load(i *ptx.Instr) {
	ty, elems := i.Mods.Type(), elements(&i.Args[0])
	s, addr := t.address(i, &i.Args[1])
	size := uint64(ty.Size())
	m := t.bytes(s, addr, size*uint64(len(elems)), false)
	for n := range elems {
		t.set(&elems[n], read(m[uint64(n)*size:][:size]), ty)
	}
}

// store is st (9.7.8).
func (t *thread) store(i *ptx.Instr) {
	ty, elems := i.Mods.Type(), elements(&i.Args[1])
	s, addr := t.address(i, &i.Args[0])
	size := uint64(ty.Size())
	m := t.bytes(s, addr, size*uint64(len(elems)), true)
	for n := range elems {
		write(m[uint64(n)*size:][:size], t.get(&elems[n], ty))
	}
}

// copyAsync is cp.async (9.7.8): copies are made at once, and none is left to be waited for.
func (t *thread) copyAsync(i *ptx.Instr) {
	if i.Mods.HasWord(ptx.Bulk) {
		t.bulk(i)
		return
	}
	if i.Mods.Mode == ptx.ModeArrive {
		t.mbarrier(i)
	}
	if i.Mods.Mode != ptx.ModeNone {
		return
	}
	size := i.Args[2].Value
	count := size
	if n := len(i.Args); n == 5 || n == 4 && !i.Mods.Has(ptx.Hint) {
		count = min(count, t.get(&i.Args[3], ptx.U32))
	}
	source := *i
	source.Mods.Space = i.AddressSpace(1)
	s, to := t.address(i, &i.Args[0])
	target := t.bytes(s, to, size, true)
	s, from := t.address(&source, &i.Args[1])
	data := make([]byte, size)
	if count > 0 && from%size != 0 {
		e := t.lost(gpu.LostAlign, "cp.async")
		e.Addr = from
		panic(e)
	}
	if count == size {
		copy(data, t.bytes(s, from, size, false))
	} else {
		for n := range count {
			data[n] = t.bytes(s, from+n, 1, false)[0]
		}
	}
	copy(target, data)
}

// cvta converts between the addresses of a state space and generic ones.
func (t *thread) cvta(i *ptx.Instr) {
	ty := i.Mods.Type() // 32 bits for .global and .const only, whose addresses are generic ones
	x := t.get(&i.Args[1], ty)
	base := map[ptx.Space]uint64{ptx.SpaceShared: exec.SharedBase, ptx.SpaceSharedCluster: exec.SharedBase, ptx.SpaceLocal: exec.LocalBase, ptx.SpaceParam: exec.ParamBase}[t.where(i.Mods.Space)]
	if i.Mods.Has(ptx.To) {
		base = -base
	}
	t.set(&i.Args[0], x+base, ty)
}

// isspacep tells in which state space a generic address lies.
func (t *thread) isspacep(i *ptx.Instr) {
	addr := t.get(&i.Args[1], ptx.U64)
	s, at := window(addr)
	p := t.b.k.prog
	isConst := s == ptx.SpaceGlobal && addr-p.base < p.consts
	var is bool
	switch i.Mods.Space {
	case ptx.SpaceConst:
		is = isConst
	case ptx.SpaceGlobal:
		is = s == ptx.SpaceGlobal && !isConst
	case ptx.SpaceShared, ptx.SpaceSharedCTA:
		is = s == ptx.SpaceSharedCluster && at>>rankShift == t.b.rank
	default:
		is = t.where(s) == t.where(i.Mods.Space) && s != ptx.SpaceGlobal
	}
	t.set(&i.Args[0], bit(is), ptx.Pred)
}

// atom is atom and red (9.7.12). Only one thread runs at a time.
func (t *thread) atom(i *ptx.Instr) {
	ty, args := i.Mods.Type(), i.Args
	if i.Op == ptx.OpAtom {
		args = args[1:]
	}
	s, addr := t.address(i, &args[0])
	if s == ptx.SpaceGeneric {
		s, _ = window(addr)
		if s != ptx.SpaceGlobal {
			addr &= exec.WindowSize - 1
		}
	}
	size, operands, results := uint64(ty.Size()), []ptx.Operand{args[1]}, i.Args[:1]
	if i.Mods.Vec > 0 {
		operands, results = args[1].Elems, i.Args[0].Elems
	}
	if addr%(size*uint64(len(operands))) != 0 {
		e := t.lost(gpu.LostAlign, "")
		e.Addr, e.Write = addr, true
		panic(e)
	}
	var values []uint64
	for n := range operands {
		values = append(values, t.get(&operands[n], ty))
	}
	for n, b := range values {
		m := t.bytes(s, addr+uint64(n)*size, size, true)
		old, c := read(m), uint64(0)
		if i.Mods.Atomic == ptx.AtomicCas {
			c = t.get(&args[2], ty)
		}
		write(m, updated(i, old, b, c, t.where(s) == ptx.SpaceGlobal))
		if i.Op == ptx.OpAtom {
			t.set(&results[n], old, ty)
		}
	}
}

// counted is what inc and dec make of an element that wraps at most.
func counted(op ptx.Atomic, old, most uint64) uint64 {
	switch {
	case op == ptx.AtomicDec && (old == 0 || old > most):
		return most
	case op == ptx.AtomicDec:
		return old - 1
	case old >= most:
		return 0
	}
	return old + 1
}

// updated is what an atom or red makes of an element of memory.
func updated(i *ptx.Instr, old, b, c uint64, global bool) uint64 {
	ty := i.Mods.Type()
	switch i.Mods.Atomic {
	case ptx.AtomicAnd:
		return old & b
	case ptx.AtomicOr:
		return old | b
	case ptx.AtomicXor:
		return old ^ b
	case ptx.AtomicExch:
		return b
	case ptx.AtomicAdd:
		if ty.Float() {
			return atomicSum(ty, old, b, global)
		}
		return old + b
	case ptx.AtomicMin, ptx.AtomicMax:
		return atomicExtreme(i.Mods.Atomic, ty, old, b)
	case ptx.AtomicInc, ptx.AtomicDec:
		return counted(i.Mods.Atomic, old, b)
	case ptx.AtomicCas:
		if old == b {
			return c
		}
	}
	return old
}

// atomicExtreme is the smaller or the larger of two numbers.
func atomicExtreme(op ptx.Atomic, ty ptx.Type, old, b uint64) uint64 {
	if part := packed[ty]; part != ptx.TypeNone {
		return atomicExtreme(op, part, old&0xffff, b&0xffff) | atomicExtreme(op, part, old>>16, b>>16)<<16
	}
	if ty.Float() {
		pick := ptx.OpMin
		if op == ptx.AtomicMax {
			pick = ptx.OpMax
		}
		return formatOf(ty).pick(pick, &ptx.Mods{}, old, b)
	}
	cmp := ptx.CmpLT
	if op == ptx.AtomicMax {
		cmp = ptx.CmpGT
	}
	if compare(cmp, ty, b, old) {
		return b
	}
	return old
}

// atomicSum is atom.add of floating point. Global memory computes f32 for itself
// and flushes subnormals, and it leaves the NaNs of f64 as they are.
func atomicSum(ty ptx.Type, old, b uint64, global bool) uint64 {
	f := formatOf(ty)
	switch {
	case ty == ptx.F16x2 || ty == ptx.BF16x2:
		return f.sum(old&0xffff, b&0xffff) | f.sum(old>>16, b>>16)<<16
	case ty == ptx.F32 && global:
		return f.flush(f.sum(f.flush(old), f.flush(b)))
	case ty == ptx.F64 && f.isNaN(b) && global:
		return b
	case ty == ptx.F64 && f.isNaN(old) && global:
		return old
	case ty == ptx.F64:
		return doubleSum(old, b)
	}
	return f.sum(old, b)
}

func (f format) sum(a, b uint64) uint64 {
	return f.encode(f.decode(a).add(f.decode(b), ptx.RN), ptx.RN)
}

// doubleSum is the sum of doubles that hands the first NaN on.
func doubleSum(a, b uint64) uint64 {
	if r := double.decode(a).add(double.decode(b), ptx.RN); r.kind != notANumber {
		return double.encode(r, ptx.RN)
	}
	return quiet(a, b)
}
