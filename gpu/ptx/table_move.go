package ptx

import "fmt"

// quadArchitecture is the first architecture with values of 128 bits.
const quadArchitecture = 70

// memSpaces are the state spaces of ld.
var memSpaces = []Space{SpaceConst, SpaceGlobal, SpaceLocal, SpaceParam, SpaceShared, SpaceSharedCTA,
	SpaceSharedCluster, SpaceParamEntry, SpaceParamFunc}

// moveForms move data: 9.7.8, but for cvt.
func moveForms() []Form {
	const s = "9.7.8"
	shfl := pick(fieldMode, ModeUp, ModeDown, ModeBfly, ModeIdx)
	movTypes := []Type{B16, B32, B64, U16, U32, U64, S16, S32, S64, F32, F64}
	f := append(wideMoves(), accessForms(opt(pick(fieldVec, uint8(2), uint8(4))), typ(mem8to64...))...)
	for _, quad := range accessForms(typ(B128)) {
		f = append(f, quad.since(quadArchitecture))
	}
	return append(f, []Form{
		form(OpMov, s, "=&d &a", typ(append(movTypes, Pred)...)),
		form(OpMov, s, "=&d &a", typ(B128)).since(quadArchitecture),
		form(OpMov, s, "=d~ a~", pick(fieldVec, uint8(2), uint8(4)), typ(movTypes...)),
		form(OpShfl, s, "=|d a b:u32 c:u32", shfl, typ(B32)),
		form(OpShfl, s, "=|d a b:u32 c:u32 mask:u32", flag(Sync), shfl, typ(B32)),
		form(OpPrmt, s, dabc, typ(B32), opt(pick(fieldMode, span(ModeF4E, ModeRC16)...))),

		form(OpPrefetch, s, "[a", opt(pick(fieldSpace, SpaceGlobal, SpaceLocal)), pick(fieldPrefetch, PrefetchL1, PrefetchL2)),
		form(OpPrefetch, s, "[a", pick(fieldSpace, SpaceGlobal), pick(fieldL2, EvictL2Normal, EvictL2Last)),
		form(OpPrefetchu, s, "[a", pick(fieldPrefetch, PrefetchL1)),
		form(OpApplypriority, s, "[a #size", opt(pick(fieldSpace, SpaceGlobal)), pick(fieldL2, EvictL2Normal)),
		form(OpDiscard, s, "[a #size", opt(pick(fieldSpace, SpaceGlobal)), pick(fieldPrefetch, PrefetchL2)),

		form(OpIsspacep, s, "=p:pred a:a", pick(fieldSpace, SpaceConst, SpaceGlobal, SpaceLocal, SpaceShared,
			SpaceSharedCTA, SpaceSharedCluster, SpaceParam, SpaceParamEntry)),
		form(OpCvta, s, "=d *a", opt(flag(To)), pick(fieldSpace, SpaceConst, SpaceGlobal, SpaceLocal, SpaceShared,
			SpaceSharedCTA, SpaceSharedCluster, SpaceParam, SpaceParamEntry), typ(U32, U64)),
	}...)
}

// accessForms are ld and st. What they move is said by the last slots.
func accessForms(what ...slot) (f []Form) {
	const s, load, store, policy = "9.7.8", "=d~ [a", "[a b~", " policy:u64"
	l1 := opt(pick(fieldL1, span(EvictL1Normal, EvictL1NoAllocate)...))
	size := opt(pick(fieldPrefetch, PrefetchL2x64, PrefetchL2x128, PrefetchL2x256))
	anywhere, writable := opt(pick(fieldSpace, memSpaces...)), opt(pick(fieldSpace, SpaceGlobal, SpaceLocal, SpaceParam, SpaceParamFunc, SpaceShared, SpaceSharedCTA, SpaceSharedCluster))
	order := func(os ...Order) slot { return pick(fieldOrder, os...) }
	scope := pick(fieldScope, ScopeCTA, ScopeCluster, ScopeGPU, ScopeSys)
	hint, global := flag(Hint), opt(pick(fieldSpace, SpaceGlobal))
	add := func(op Op, args string, slots ...slot) {
		f = append(f, form(op, s, args, append(slots, what...)...).with(checkMem))
	}
	single := what[len(what)-1:] // no vectors
	add(OpLd, load, opt(order(OrderWeak)), anywhere, opt(pick(fieldCache, CacheCA, CacheCG, CacheCS, CacheLU, CacheCV)), l1, size)
	add(OpLd, load+policy, opt(order(OrderWeak)), global, opt(pick(fieldCache, CacheCA, CacheCG, CacheCS, CacheLU, CacheCV)), l1, hint, size)
	add(OpLd, load, order(OrderVolatile), anywhere, size)
	add(OpLd, load, order(OrderRelaxed, OrderAcquire), scope, anywhere, l1, size)
	add(OpLd, load+policy, order(OrderRelaxed, OrderAcquire), scope, global, l1, hint, size)
	add(OpLd, load, pick(fieldSpace, SpaceGlobal), opt(pick(fieldCache, CacheCA, CacheCG, CacheCS)), flag(NC), l1, size)
	add(OpLd, load+policy, pick(fieldSpace, SpaceGlobal), opt(pick(fieldCache, CacheCA, CacheCG, CacheCS)), flag(NC), l1, hint, size)
	f = append(f, form(OpLd, s, load, append([]slot{flag(MMIO), order(OrderRelaxed), pick(fieldScope, ScopeSys), global}, single...)...))
	f = append(f, form(OpLdu, s, load, append([]slot{opt(pick(fieldSpace, SpaceGlobal))}, what...)...))
	add(OpSt, store, opt(order(OrderWeak)), writable, opt(pick(fieldCache, CacheWB, CacheCG, CacheCS, CacheWT)), l1)
	add(OpSt, store+policy, opt(order(OrderWeak)), global, opt(pick(fieldCache, CacheWB, CacheCG, CacheCS, CacheWT)), l1, hint)
	add(OpSt, store, order(OrderVolatile), writable)
	add(OpSt, store, order(OrderRelaxed, OrderRelease), scope, writable, l1)
	add(OpSt, store+policy, order(OrderRelaxed, OrderRelease), scope, global, l1, hint)
	f = append(f, form(OpSt, s, store, append([]slot{flag(MMIO), order(OrderRelaxed), pick(fieldScope, ScopeSys), global}, single...)...))
	return f
}

// wideMoves are ld and st of 32 bytes, in global memory only.
func wideMoves() []Form {
	const s, load, store, policy = "9.7.8", "=d~ [a", "[a b~", " policy:u64"
	scope, global := pick(fieldScope, ScopeCTA, ScopeCluster, ScopeGPU, ScopeSys), pick(fieldSpace, SpaceGlobal)
	l1, l2 := opt(pick(fieldL1, span(EvictL1Normal, EvictL1NoAllocate)...)), opt(pick(fieldL2, EvictL2Normal, EvictL2First, EvictL2Last))
	size, weak := opt(pick(fieldPrefetch, PrefetchL2x64, PrefetchL2x128, PrefetchL2x256)), opt(pick(fieldOrder, OrderWeak))
	var f []Form
	for _, wide := range [][]slot{{pick(fieldVec, uint8(8)), typ(B32, U32, S32, F32)}, {pick(fieldVec, uint8(4)), typ(B64, U64, S64, F64)}} {
		add := func(op Op, args string, slots ...slot) {
			f = append(f, form(op, s, args, append(slots, wide...)...).derived(100))
		}
		add(OpLd, load, weak, global, l1, l2, size)
		add(OpLd, load+policy, weak, global, l1, l2, flag(Hint), size)
		add(OpLd, load, pick(fieldOrder, OrderRelaxed, OrderAcquire), scope, global, l1, l2, size)
		add(OpLd, load, global, flag(NC), l1, l2, size)
		add(OpSt, store, weak, global, l1, l2)
		add(OpSt, store+policy, weak, global, l1, l2, flag(Hint))
		add(OpSt, store, pick(fieldOrder, OrderRelaxed, OrderRelease), scope, global, l1, l2)
	}
	return f
}

// asyncForms copy to shared memory while a thread goes on: 9.7.8.
func asyncForms() []Form {
	const s = "9.7.8"
	shared, size := pick(fieldSpace, SpaceShared, SpaceSharedCTA), opt(pick(fieldPrefetch, PrefetchL2x64, PrefetchL2x128, PrefetchL2x256))
	caches := pick(fieldCache, CacheCA, CacheCG)
	return []Form{
		form(OpCp, s, "[d [s #bytes source:u32?", flag(Async), caches, shared, flag(Global), size).since(80),
		form(OpCp, s, "[d [s #bytes source:u32? policy:u64", flag(Async), caches, shared, flag(Global), flag(Hint), size).since(80),
		form(OpCp, s, "", flag(Async), pick(fieldMode, ModeCommitGroup, ModeWaitAll)).since(80),
		form(OpCp, s, "#groups", flag(Async), pick(fieldMode, ModeWaitGroup)).since(80),
		form(OpCreatepolicy, s, "=d fraction:f32?", pick(fieldMode, ModeFractional), pick(fieldL2, EvictL2Normal, EvictL2First, EvictL2Last), typ(B64)).since(80),
	}
}

// mbarrierForms are barriers in shared memory: 9.7.12.
func mbarrierForms() []Form {
	const s = "9.7.12"
	space, bits := opt(pick(fieldSpace, SpaceShared, SpaceSharedCTA)), typ(B64)
	remote, anywhere := pick(fieldSpace, SpaceSharedCluster), opt(pick(fieldSpace, SpaceShared, SpaceSharedCTA, SpaceSharedCluster))
	mode := func(ms ...Mode) slot { return pick(fieldMode, ms...) }
	order := func(os ...Order) slot { return opt(pick(fieldOrder, os...)) }
	scope := opt(pick(fieldScope, ScopeCTA, ScopeCluster))
	release, acquire := order(OrderRelease, OrderRelaxed), order(OrderAcquire, OrderRelaxed)
	return []Form{
		form(OpMbarrier, s, "[a count:u32", mode(ModeInit), space, bits).since(80),
		form(OpMbarrier, s, "[a", mode(ModeInval), space, bits).since(80),
		form(OpMbarrier, s, "=d:b64_ [a count:u32?", mode(ModeArrive, ModeArriveDrop), release, scope, space, bits).since(80),
		form(OpMbarrier, s, "=d:b64_ [a bytes:u32", mode(ModeArrive, ModeArriveDrop), flag(ExpectTx), release, scope, space, bits).since(90),
		form(OpMbarrier, s, "__state [a count:u32?", mode(ModeArrive, ModeArriveDrop), release, scope, remote, bits).since(90),
		form(OpMbarrier, s, "__state [a bytes:u32", mode(ModeArrive, ModeArriveDrop), flag(ExpectTx), release, scope, remote, bits).since(90),
		form(OpMbarrier, s, "[a bytes:u32", flag(ExpectTx), order(OrderRelaxed), scope, anywhere, bits).since(90),
		form(OpMbarrier, s, "[a bytes:u32", word(CompleteBytes), order(OrderRelaxed), scope, anywhere, bits).since(90),
		form(OpMbarrier, s, "=p:pred [a state:b64", mode(ModeTestWait), acquire, scope, space, bits).since(80),
		form(OpMbarrier, s, "=p:pred [a parity:u32", mode(ModeTestWait), flag(Parity), acquire, scope, space, bits).since(80),
		form(OpMbarrier, s, "=p:pred [a state:b64 hint:u32?", mode(ModeTryWait), acquire, scope, space, bits).since(90),
		form(OpMbarrier, s, "=p:pred [a parity:u32 hint:u32?", mode(ModeTryWait), flag(Parity), acquire, scope, space, bits).since(90),
		form(OpMbarrier, s, "=d:b32 state:b64", mode(ModePendingCount), bits).since(80),
		form(OpCp, s, "[a", flag(Async), flag(Barrier), mode(ModeArrive), opt(flag(NoInc)), space, bits).since(80),
	}
}

// checkMem knows which modifiers of ld and st go with which state space.
func checkMem(m *Mods) string {
	global := m.Space == SpaceGeneric || m.Space == SpaceGlobal
	shared := m.Space == SpaceShared || m.Space == SpaceSharedCTA || m.Space == SpaceSharedCluster
	switch {
	case int(m.Vec)*m.Types[0].Size() > 16:
		return "a vector is wider than 16 bytes"
	case m.L1 != EvictNone && m.Cache != CacheNone:
		return fmt.Sprintf(".%s and .%s exclude each other", m.Cache, m.L1)
	case (m.L1 != EvictNone || m.Prefetch != PrefetchNone) && !global:
		return "cache hints are only for .global"
	case m.Order > OrderWeak && !global && !shared:
		return fmt.Sprintf(".%s is only for .global and .shared", m.Order)
	}
	return ""
}

// convertForms are cvt: 9.7.8.
func convertForms() []Form {
	const s = "9.7.8"
	relu, fin := opt(flag(Relu)), opt(flag(SatFinite))
	scalars := []Type{U8, U16, U32, U64, S8, S16, S32, S64, F16, BF16, F32, F64}
	down := pick(fieldRound, RN, RZ)
	return []Form{
		form(OpCvt, s, "=d~ a:1~", opt(pick(fieldRound, RN, RZ, RM, RP, RNI, RZI, RMI, RPI)), opt(flag(FTZ)), opt(flag(Sat)),
			typ(scalars...), typ(scalars...)).with(checkCvt),
		form(OpCvt, s, "=d a:1", down, flag(Relu), fin, typ(F16, BF16), typ(F32)),
		form(OpCvt, s, "=d a:1", down, flag(SatFinite), typ(F16, BF16), typ(F32)),
		form(OpCvt, s, "=d a:f32 b:f32", down, relu, fin, typ(F16x2, BF16x2), typ(F32)),
		form(OpCvt, s, "=d:b32 a:f32", pick(fieldRound, RNA), fin, typ(TF32), typ(F32)),
		form(OpCvt, s, "=d:b32 a:f32", down, relu, typ(TF32), typ(F32)),
		form(OpCvt, s, "=d:b32 a:f32", down, relu, flag(SatFinite), typ(TF32), typ(F32)).since(100),
		form(OpCvt, s, "=d:b16 a:f32 b:f32", pick(fieldRound, RN), flag(SatFinite), relu, typ(E4M3x2, E5M2x2), typ(F32)),
		form(OpCvt, s, "=d:b16 a:f16x2", pick(fieldRound, RN), flag(SatFinite), relu, typ(E4M3x2, E5M2x2), typ(F16x2)),
		form(OpCvt, s, "=d:b16 a:f32 b:f32", pick(fieldRound, RN), flag(SatFinite), relu, typ(E2M3x2, E3M2x2), typ(F32)).derived(100),
		form(OpCvt, s, "=d:f16x2 a:b16", pick(fieldRound, RN), relu, typ(F16x2), typ(E2M3x2, E3M2x2)).derived(100),
		form(OpCvt, s, "=d:b8 a:f32 b:f32", pick(fieldRound, RN), flag(SatFinite), relu, typ(E2M1x2), typ(F32)).derived(100),
		form(OpCvt, s, "=d:f16x2 a:b8", pick(fieldRound, RN), relu, typ(F16x2), typ(E2M1x2)).derived(100),
		form(OpCvt, s, "=d:b32 a:s32 b:s32", flag(Pack), flag(Sat), typ(U16, S16), typ(S32)),
		form(OpCvt, s, "=d:b32 a:s32 b:s32 c:b32", flag(Pack), flag(Sat), typ(U2, S2, U4, S4, U8, S8), typ(S32), typ(B32)),
		form(OpCvt, s, "=d:f16x2 a:b16", pick(fieldRound, RN), relu, typ(F16x2), typ(E4M3x2, E5M2x2)),
	}
}

// checkCvt knows which conversions need a rounding modifier, and of which kind.
func checkCvt(m *Mods) string {
	d, a := m.Types[0], m.Types[1]
	toInt := m.Round >= RNI
	toFloat := m.Round != RoundNone && !toInt
	narrows := d.Float() && a.Float() && (d.Size() < a.Size() || d.Size() == a.Size() && d != a)
	switch {
	case !d.Float() && !a.Float():
		if m.Round != RoundNone {
			return "rounding modifier not allowed between integers"
		}
	case !d.Float():
		if !toInt {
			return "integer rounding modifier (.rni, .rzi, .rmi, .rpi) required from floating point to integer"
		}
	case d == F16 && a == BF16 && m.Round == RoundNone:
	case !a.Float() || narrows:
		if !toFloat {
			return "rounding modifier (.rn, .rz, .rm, .rp) required"
		}
	case d == a:
		if toFloat {
			return "only integer rounding modifiers are allowed between equal types"
		}
	default:
		if m.Round != RoundNone {
			return "rounding modifier not allowed towards a wider type"
		}
	}
	if m.Has(Sat) && !d.Float() && !a.Float() && holds(d, a) {
		return ".sat has nothing to do between these types"
	}
	if m.Has(FTZ) && d != F32 && a != F32 {
		return ".ftz needs an .f32 operand"
	}
	return ""
}

// holds reports whether integer type d has all values of a.
func holds(d, a Type) bool {
	return d.Size() > a.Size() && (d.Signed() || a.Unsigned()) || d.Size() == a.Size() && d.Signed() == a.Signed()
}
