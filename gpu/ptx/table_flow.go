package ptx

import "slices"

// flowForms are control flow (9.7.11), the stack (9.7.15) and the rest (9.7.18).
func flowForms() []Form {
	const s, stack, misc = "9.7.11", "9.7.15", "9.7.18"
	uni := opt(flag(Uni))
	return []Form{
		form(OpBra, s, ">target", uni),
		form(OpBrx, s, "index:u32 @list", pick(fieldMode, ModeIdx), uni),
		form(OpCall, s, "", uni),
		form(OpRet, s, "", uni),
		form(OpExit, s, ""),

		form(OpStacksave, stack, "=d", typ(U32, U64)),
		form(OpStackrestore, stack, "a", typ(U32, U64)),
		form(OpAlloca, stack, "=d size #align?", typ(U32, U64)),

		form(OpBrkpt, misc, ""),
		form(OpTrap, misc, ""),
		form(OpNanosleep, misc, "t", typ(U32)),
		form(OpPmevent, misc, "#event", opt(flag(Mask))),
		form(OpSetmaxnreg, misc, "#registers", pick(fieldMode, ModeInc, ModeDec), flag(Sync), flag(Aligned), typ(U32)).since(90),
		form(OpGriddepcontrol, "9.7.12", "", pick(fieldMode, ModeWait, ModeLaunch)).since(90),
	}
}

// syncForms are synchronisation and communication: 9.7.12.
func syncForms() []Form {
	const s = "9.7.12"
	cta := opt(pick(fieldScope, ScopeCTA))
	order := opt(pick(fieldOrder, OrderRelaxed, OrderAcquire, OrderRelease, OrderAcqRel))
	scope := pick(fieldScope, ScopeCTA, ScopeCluster, ScopeGPU, ScopeSys)
	space := opt(pick(fieldSpace, SpaceGlobal, SpaceShared, SpaceSharedCTA, SpaceSharedCluster))
	bits := pick(fieldAtomic, AtomicAnd, AtomicOr, AtomicXor)
	addMinMax := pick(fieldAtomic, AtomicAdd, AtomicMin, AtomicMax)
	votes := pick(fieldMode, ModeAll, ModeAny, ModeUni)
	f := []Form{
		form(OpBar, s, "mask:u32", pick(fieldMode, ModeWarp), flag(Sync)),
		form(OpMembar, s, "", pick(fieldScope, ScopeCTA, ScopeGL, ScopeSys)),
		form(OpFence, s, "", opt(pick(fieldOrder, OrderSC, OrderAcqRel, OrderAcquire, OrderRelease)), scope),

		form(OpMembar, s, "", flag(Proxy), flag(ProxyAlias)),
		form(OpFence, s, "", flag(Proxy), flag(ProxyAlias)),
		form(OpFence, s, "", flag(Proxy), flag(Async), opt(pick(fieldSpace, SpaceGlobal, SpaceSharedCTA, SpaceSharedCluster))).since(90),
		form(OpFence, s, "", pick(fieldMode, ModeBarrierInit), pick(fieldOrder, OrderRelease), pick(fieldScope, ScopeCluster)).since(90),

		form(OpVote, s, "=d:pred !a", votes, typ(Pred)),
		form(OpVote, s, "=d !a", pick(fieldMode, ModeBallot), typ(B32)),
		form(OpVote, s, "=d:pred !a mask:u32", flag(Sync), votes, typ(Pred)),
		form(OpVote, s, "=d !a mask:u32", flag(Sync), pick(fieldMode, ModeBallot), typ(B32)),
		form(OpMatch, s, "=d:b32 a mask:u32", pick(fieldMode, ModeAny), flag(Sync), typ(B32, B64)),
		form(OpMatch, s, "=|d:b32_ a mask:u32", pick(fieldMode, ModeAll), flag(Sync), typ(B32, B64)),
		form(OpActivemask, s, "=d", typ(B32)),
		form(OpRedux, s, "=d a mask:u32", flag(Sync), addMinMax, typ(U32, S32)),
		form(OpRedux, s, "=d a mask:u32", flag(Sync), bits, typ(B32)),
		form(OpRedux, s, "=d a mask:u32", flag(Sync), pick(fieldAtomic, AtomicMin, AtomicMax), opt(flag(Abs)), opt(flag(NaN)), typ(F32)).since(100),
		form(OpElect, s, "=|d:b32_ mask:u32", flag(Sync)),
	}
	for _, op := range []Op{OpBar, OpBarrier} {
		add := func(args string, mode Mode, rest ...slot) {
			slots := append([]slot{cta, pick(fieldMode, mode)}, rest...)
			if op == OpBarrier { // bar is always aligned
				slots = slices.Insert(slots, min(len(slots), 3), opt(flag(Aligned)))
			}
			f = append(f, form(op, s, args, slots...))
		}
		add("a:u32 b:u32?", ModeSync)
		add("a:u32 b:u32", ModeArrive)
		add("=d a:u32 b:u32? !c", ModeRed, pick(fieldBool, BoolPopc), typ(U32))
		add("=d a:u32 b:u32? !c", ModeRed, pick(fieldBool, BoolAnd, BoolOr), typ(Pred))
	}
	global := opt(pick(fieldSpace, SpaceGlobal))
	add := func(dst string, op Op, what slot, types ...slot) {
		order := order
		if op == OpRed {
			order = opt(pick(fieldOrder, OrderRelaxed, OrderRelease))
		}
		slots := append([]slot{order, opt(scope), space, what}, types...)
		f = append(f, form(op, s, dst+"[a b", slots...))
		slots = append([]slot{order, opt(scope), global, what}, types...)
		f = append(f, form(op, s, dst+"[a b policy:u64", slices.Insert(slots, len(slots)-1, flag(Hint))...))
	}
	for _, op := range []Op{OpAtom, OpRed} {
		dst := ""
		if op == OpAtom {
			dst = "=d_ "
			add(dst, op, pick(fieldAtomic, AtomicExch), typ(B32, B64))
			f = append(f, form(op, s, "=d_ [a b c", order, opt(scope), space, pick(fieldAtomic, AtomicCas), typ(B16, B32, B64)))
			f = append(f, form(op, s, "=d_ [a b", order, opt(scope), space, pick(fieldAtomic, AtomicExch), typ(B128)).since(90),
				form(op, s, "=d_ [a b policy:u64", order, opt(scope), global, pick(fieldAtomic, AtomicExch), flag(Hint), typ(B128)).since(90),
				form(op, s, "=d_ [a b c", order, opt(scope), space, pick(fieldAtomic, AtomicCas), typ(B128)).since(90))
		}
		add(dst, op, bits, typ(B32, B64))
		add(dst, op, pick(fieldAtomic, AtomicAdd), typ(U32, S32, U64, F32, F64))
		add(dst, op, pick(fieldAtomic, AtomicAdd), flag(NoFTZ), typ(half...))
		add(dst, op, pick(fieldAtomic, AtomicInc, AtomicDec), typ(U32))
		add(dst, op, pick(fieldAtomic, AtomicMin, AtomicMax), typ(U32, S32, U64, S64))
		f = append(f, vectorAtomicForms(op, opt(scope))...)
	}
	return f
}

// vectorAtomicForms are atom and red on the elements of a vector, each of which is atomic.
func vectorAtomicForms(op Op, scope slot) (f []Form) {
	dst, order := "=d~ ", opt(pick(fieldOrder, OrderRelaxed, OrderAcquire, OrderRelease, OrderAcqRel))
	if op == OpRed {
		dst, order = "", opt(pick(fieldOrder, OrderRelaxed, OrderRelease))
	}
	ops := pick(fieldAtomic, AtomicAdd, AtomicMin, AtomicMax)
	add := func(slots ...slot) {
		slots = append([]slot{order, scope, opt(pick(fieldSpace, SpaceGlobal))}, slots...)
		hint := slices.Insert(slices.Clone(slots), len(slots)-2, flag(Hint))
		f = append(f, form(op, "9.7.12", dst+"[a b~", slots...).since(90), form(op, "9.7.12", dst+"[a b~ policy:u64", hint...).since(90))
	}
	add(pick(fieldAtomic, AtomicAdd), pick(fieldVec, uint8(2), uint8(4)), typ(F32))
	add(ops, flag(NoFTZ), pick(fieldVec, uint8(2), uint8(4), uint8(8)), typ(F16, BF16))
	add(ops, flag(NoFTZ), pick(fieldVec, uint8(2), uint8(4)), typ(F16x2, BF16x2))
	return f
}

// rawForms are the families that the table knows by name only: an instruction belongs to
// the row whose name its first words equal.
func rawForms() []Form {
	var f []Form
	for _, g := range []struct {
		section string
		names   []string
	}{
		{section: "9.7.1", names: []string{"clmad"}},
		{section: "9.7.8", names: []string{"st.bulk", "multimem", "createpolicy", "cp", "tensormap"}},
		{section: "9.7.9", names: []string{"tex", "tld4", "txq", "istypep"}},
		{section: "9.7.10", names: []string{"suld", "sust", "sured", "suq"}},
		{section: "9.7.12", names: []string{"mbarrier", "clusterlaunchcontrol"}},
		{section: "9.7.13", names: []string{"wmma", "mma", "ldmatrix", "stmatrix", "movmatrix"}},
		{section: "9.7.14", names: []string{"wgmma", "tcgen05"}},
	} {
		for _, name := range g.names {
			f = append(f, Form{Op: OpRaw, Name: name, Section: g.section})
		}
	}
	return f
}
