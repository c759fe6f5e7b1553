package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// mask has the bits of a type.
func mask(ty ptx.Type) uint64 { return 1<<ty.Bits() - 1 }

// get is the value of an operand as type ty. Of a wider register it is the
// lower part.
func (t *thread) get(o *ptx.Operand, ty ptx.Type) uint64 {
	switch o.Kind {
	case ptx.OperandReg:
		x := t.regs[o.Reg] & mask(ty)
		if o.Neg {
			x ^= 1
		}
		return x
	case ptx.OperandImm:
		x := o.Imm(ty)
		if o.Neg {
			x ^= 1
		}
		return x
	case ptx.OperandSpecial:
		return t.special(o.Special) & mask(ty)
	case ptx.OperandSymbol:
		if f, ok := o.Ref.(*ptx.Func); ok {
			return (t.b.k.prog.funcs[definition(f)].addr + o.Value) & mask(ty)
		}
		_, addr := t.variable(o.Ref.(*ptx.Var))
		return (addr + o.Value) & mask(ty)
	}
	t.fail(gpu.LostInstruction, "operand that has no value") // Verify lets none through
	return 0
}

// signed is get, extended to 64 bits by the sign if ty has one.
func (t *thread) signed(o *ptx.Operand, ty ptx.Type) int64 { return extend(t.get(o, ty), ty) }

func extend(x uint64, ty ptx.Type) int64 {
	if n := 64 - ty.Bits(); ty.Signed() {
		return int64(x<<n) >> n
	}
	return int64(x & mask(ty))
}

// set gives a register a value of type ty; a wider one gets it extended by its
// sign or by zeros (section 9.4.1).
func (t *thread) set(o *ptx.Operand, x uint64, ty ptx.Type) {
	if o.Kind == ptx.OperandReg {
		t.regs[o.Reg] = uint64(extend(x, ty)) & mask(t.fn.f.Regs[o.Reg].Type)
	}
}

// pair splits d|p. A part that is not there is a sink.
func pair(o *ptx.Operand) (d, p *ptx.Operand) {
	if o.Kind == ptx.OperandPair {
		return &o.Elems[0], &o.Elems[1]
	}
	return o, &ptx.Operand{Kind: ptx.OperandSink}
}

// exec runs one instruction, whose guard holds. Section numbers are those of
// the PTX ISA manual.
func (t *thread) exec(i *ptx.Instr) {
	if i.Mods.Type() == ptx.B128 {
		t.quad(i)
		return
	}
	switch i.Op {
	// 9.7.11: control flow
	case ptx.OpBra:
		t.pc = int(i.Args[0].Target)
	case ptx.OpBrx:
		list, n := i.Args[1].Ref.(*ptx.Targets), t.get(&i.Args[0], ptx.U32)
		if n >= uint64(len(list.Labels)) {
			t.fail(gpu.LostInstruction, "indexed branch beyond its list of targets")
		}
		t.pc = int(list.Labels[n].Target)
	case ptx.OpCall:
		t.call(i)
	case ptx.OpRet:
		t.leave()
	case ptx.OpExit:
		t.exit()

	// 9.7.18 and 9.7.15: miscellaneous and the stack
	case ptx.OpTrap, ptx.OpBrkpt:
		t.fail(gpu.LostTrap, i.Op.String())
	case ptx.OpNanosleep, ptx.OpPmevent:
	case ptx.OpAlloca:
		t.alloca(i)
	case ptx.OpStacksave:
		t.set(&i.Args[0], uint64(len(t.local)), ptx.U64)
	case ptx.OpStackrestore:
		t.restore(i)

	// 9.7.12: what threads do together. Accesses of a thread happen in order, so
	// fences have nothing to do.
	case ptx.OpMembar, ptx.OpFence:
	case ptx.OpBar, ptx.OpBarrier:
		switch {
		case i.Mods.Mode == ptx.ModeWarp:
			t.waitWarp(i)
		case i.Mods.Scope == ptx.ScopeCluster:
			t.barrierCluster(i)
		default:
			t.barrier(i)
		}
	case ptx.OpShfl, ptx.OpVote, ptx.OpMatch, ptx.OpRedux, ptx.OpActivemask, ptx.OpElect,
		ptx.OpMma, ptx.OpWgmma, ptx.OpWmma, ptx.OpLdmatrix, ptx.OpStmatrix, ptx.OpMovmatrix:
		t.waitWarp(i)
	case ptx.OpAtom, ptx.OpRed:
		if i.Mods.Has(ptx.Async) {
			t.async(i)
		} else {
			t.atom(i)
		}
	case ptx.OpMbarrier:
		t.mbarrier(i)

	default:
		t.compute(i)
	}
}

// compute runs an instruction that concerns its own thread only.
func (t *thread) compute(i *ptx.Instr) {
	switch i.Op {
	// 9.7.8: data movement
	case ptx.OpLd, ptx.OpLdu:
		t.load(i)
	case ptx.OpSt:
		if i.Mods.Has(ptx.Async) {
			t.async(i)
		} else {
			t.store(i)
		}
	case ptx.OpMapa:
		t.mapa(i)
	case ptx.OpGetctarank:
		t.rankOf(i)
	case ptx.OpPrefetch:
		t.prefetch(i)
	case ptx.OpTensormap:
		t.tensormap(i)
	case ptx.OpPrefetchu, ptx.OpApplypriority, ptx.OpDiscard, ptx.OpGriddepcontrol, ptx.OpSetmaxnreg:
	case ptx.OpCp:
		t.copyAsync(i)
	case ptx.OpCreatepolicy: // an opaque value, as an H100 has it
		t.set(&i.Args[0], map[ptx.Evict]uint64{ptx.EvictL2Normal: 0x16f0, ptx.EvictL2First: 0x12f0, ptx.EvictL2Last: 0x14f0}[i.Mods.L2]<<48, ptx.B64)
	case ptx.OpMov:
		t.mov(i)
	case ptx.OpCvt:
		if i.Mods.Has(ptx.Pack) {
			t.packIntegers(i)
		} else {
			t.convert(i)
		}
	case ptx.OpCvta:
		t.cvta(i)
	case ptx.OpIsspacep:
		t.isspacep(i)
	case ptx.OpPrmt:
		t.prmt(i)

	// 9.7.9 and 9.7.10: textures and surfaces
	case ptx.OpTex, ptx.OpTld4, ptx.OpTxq, ptx.OpSuq:
		t.texture(i)
	case ptx.OpSuld, ptx.OpSust, ptx.OpSured:
		t.surface(i)

	// 9.7.5 and 9.7.6: comparison and selection
	case ptx.OpSetp:
		t.setp(i)
	case ptx.OpSet:
		t.setValue(i)
	case ptx.OpTestp:
		t.testp(i)
	case ptx.OpSelp:
		n := 2
		if t.get(&i.Args[3], ptx.Pred) == 1 {
			n = 1
		}
		t.set(&i.Args[0], t.get(&i.Args[n], i.Mods.Type()), i.Mods.Type())
	case ptx.OpSlct:
		t.slct(i)

	// 9.7.2: extended precision; 9.7.7: logic and shifts
	case ptx.OpAddc, ptx.OpSubc, ptx.OpMadc:
		t.extended(i)
	case ptx.OpAnd, ptx.OpOr, ptx.OpXor, ptx.OpNot, ptx.OpCnot, ptx.OpLop3, ptx.OpShf, ptx.OpShl, ptx.OpShr:
		t.logic(i)

	default: // 9.7.1, 9.7.3 and 9.7.4, 9.7.16 and 9.7.17
		if i.Op.Video() {
			t.video(i)
		} else {
			t.arithmetic(i)
		}
	}
}

func (t *thread) arithmetic(i *ptx.Instr) {
	ty := i.Mods.Type()
	switch part := packed[ty]; {
	case ty == ptx.F32x2:
		v := t.values(i, ty)
		low := [4]uint64{v[0] & mask(ptx.F32), v[1] & mask(ptx.F32), v[2] & mask(ptx.F32)}
		high := [4]uint64{v[0] >> 32, v[1] >> 32, v[2] >> 32}
		t.set(&i.Args[0], t.float(i, ptx.F32, low)&mask(ptx.F32)|t.float(i, ptx.F32, high)<<32, ty)
	case i.Mods.Has(ptx.CC):
		t.extended(i)
	case part == ptx.TypeNone && ty.Float():
		t.set(&i.Args[0], t.float(i, ty, t.values(i, ty)), ty)
	case part == ptx.TypeNone:
		t.mixedInteger(i)
	case part.Float():
		t.eachHalf(i, t.float)
	default:
		t.eachHalf(i, t.integer)
	}
}

// values are the operands of an instruction as values of type ty.
func (t *thread) values(i *ptx.Instr, ty ptx.Type) (v [4]uint64) {
	for n := range min(len(v), len(i.Args)-1) {
		v[n] = t.get(&i.Args[1+n], ty)
	}
	return v
}

// packed is the type of both halves of a packed type, or none.
var packed = map[ptx.Type]ptx.Type{ptx.F16x2: ptx.F16, ptx.BF16x2: ptx.BF16, ptx.U16x2: ptx.U16, ptx.S16x2: ptx.S16}

// eachHalf runs f on both halves of packed operands.
func (t *thread) eachHalf(i *ptx.Instr, f func(*ptx.Instr, ptx.Type, [4]uint64) uint64) {
	ty := i.Mods.Type()
	t.set(&i.Args[0], onHalves(t.values(i, ty), func(v [4]uint64) uint64 { return f(i, packed[ty], v) }), ty)
}

// onHalves is f of the lower halves and, above it, f of the upper ones.
func onHalves(both [4]uint64, f func([4]uint64) uint64) uint64 {
	var lo, hi [4]uint64
	for n, x := range both {
		lo[n], hi[n] = x&0xffff, x>>16
	}
	return f(lo)&0xffff | f(hi)&0xffff<<16
}

// mov is mov: a move, of whole vectors too, or packing or unpacking a vector.
func (t *thread) mov(i *ptx.Instr) {
	d, a, ty := &i.Args[0], &i.Args[1], i.Mods.Type()
	switch {
	case i.Mods.Vec > 0: // all are read before any is written
		var v [4]uint64
		for n := range a.Elems {
			v[n] = t.get(&a.Elems[n], ty)
		}
		for n := range d.Elems {
			t.set(&d.Elems[n], v[n], ty)
		}
	case d.Kind == ptx.OperandVector:
		x, part := t.get(a, ty), bitsType(ty.Bits()/len(d.Elems))
		for n := range d.Elems {
			t.set(&d.Elems[n], x>>(n*part.Bits()), part)
		}
	case a.Kind == ptx.OperandVector:
		x, part := uint64(0), bitsType(ty.Bits()/len(a.Elems))
		for n := range a.Elems {
			x |= t.get(&a.Elems[n], part) << (n * part.Bits())
		}
		t.set(d, x, ty)
	default:
		t.set(d, t.get(a, ty), ty)
	}
}

// bitsType is the untyped type of n bits.
func bitsType(n int) ptx.Type {
	return map[int]ptx.Type{8: ptx.B8, 16: ptx.B16, 32: ptx.B32, 64: ptx.B64}[n]
}

// special is the value of a special register (section 10). Clocks count the
// statements that the budget still allows, downwards from zero; hardware
// counters are zero.
func (t *thread) special(s ptx.Special) uint64 {
	b, lane := t.b, t.n%warpSize
	now := -*b.budget
	switch s {
	case ptx.TidX, ptx.TidY, ptx.TidZ:
		return uint64(t.tid[s-ptx.TidX])
	case ptx.NTidX, ptx.NTidY, ptx.NTidZ:
		return uint64(b.launch.Block[s-ptx.NTidX])
	case ptx.CTAIDX, ptx.CTAIDY, ptx.CTAIDZ:
		return uint64(b.id[s-ptx.CTAIDX])
	case ptx.NCTAIDX, ptx.NCTAIDY, ptx.NCTAIDZ:
		return uint64(b.launch.Grid[s-ptx.NCTAIDX])
	case ptx.LaneID:
		return uint64(lane)
	case ptx.WarpID:
		return uint64(t.n / warpSize)
	case ptx.NWarpID:
		return uint64((len(b.threads) + warpSize - 1) / warpSize)
	case ptx.NSMID:
		return 1
	case ptx.LaneMaskEQ:
		return 1 << lane
	case ptx.LaneMaskLT:
		return 1<<lane - 1
	case ptx.LaneMaskLE:
		return 2<<lane - 1
	case ptx.LaneMaskGE:
		return ^uint64(1<<lane - 1)
	case ptx.LaneMaskGT:
		return ^uint64(2<<lane - 1)
	case ptx.Clock, ptx.Clock64, ptx.GlobalTimer, ptx.GlobalTimerLo:
		return now
	case ptx.ClockHi, ptx.GlobalTimerHi:
		return now >> 32
	case ptx.TotalSmemSize, ptx.AggrSmemSize:
		return uint64(len(b.shared))
	case ptx.EnvReg0 + 1, ptx.EnvReg0 + 2:
		return workspace(b.launch, ptx.EnvReg0+2-s)
	case ptx.DynamicSmemSize:
		return uint64(b.launch.SharedBytes)
	}
	if s >= ptx.ClusterIDX && s <= ptx.IsExplicitCluster {
		return b.place(s)
	}
	// %smid, %gridid, %pm…, the other %envreg…, the graph, and
	// reserved shared memory, of which there is none.
	return 0
}
