package ptx

// clusterForms are what blocks of a cluster do with each other: addresses of another block's shared
// memory and asynchronous accesses to it (9.7.8), and the barrier of a cluster (9.7.12).
func clusterForms() []Form {
	const move, sync = "9.7.8", "9.7.12"
	space, scope := opt(pick(fieldSpace, SpaceSharedCluster)), pick(fieldScope, ScopeCluster)
	aligned, complete := opt(flag(Aligned)), flag(CompleteTx)
	f := []Form{
		form(OpMapa, move, "=d *a rank:u32", space, typ(U32, U64)).since(90),
		form(OpGetctarank, move, "=d:u32 *a", space, typ(U32, U64)).since(90),
		form(OpSt, move, "[a b~ [mbarrier", flag(Async), opt(pick(fieldOrder, OrderWeak)), space, complete,
			opt(pick(fieldVec, uint8(2), uint8(4))), typ(B32, B64, U32, U64, S32, S64, F32, F64)).with(checkAsync).since(90),
		form(OpBarrier, sync, "", scope, pick(fieldMode, ModeArrive), opt(pick(fieldOrder, OrderRelease, OrderRelaxed)), aligned).since(90),
		form(OpBarrier, sync, "", scope, pick(fieldMode, ModeWait), opt(pick(fieldOrder, OrderAcquire)), aligned).since(90),
	}
	red := func(what Atomic, types ...Type) {
		f = append(f, form(OpRed, sync, "[a b [mbarrier", flag(Async), pick(fieldOrder, OrderRelaxed), scope, space, complete,
			pick(fieldAtomic, what), typ(types...)).since(90))
	}
	red(AtomicInc, U32)
	red(AtomicDec, U32)
	red(AtomicMin, U32, S32)
	red(AtomicMax, U32, S32)
	red(AtomicAdd, U32, S32, U64)
	for _, bits := range []Atomic{AtomicAnd, AtomicOr, AtomicXor} {
		red(bits, B32)
	}
	return f
}

// checkAsync knows the vectors of st.async.
func checkAsync(m *Mods) string {
	if int(m.Vec)*m.Types[0].Size() > 16 {
		return "a vector is wider than 16 bytes"
	}
	return ""
}

// Clusters reports whether a module speaks of clusters: kernels of others cannot reach the shared
// memory of another block, so that its addresses need not tell blocks apart.
func (m *Module) Clusters() bool {
	for _, d := range m.Directives {
		if f, ok := d.(*Func); ok && f.clusters() {
			return true
		}
	}
	return false
}

func (f *Func) clusters() bool {
	if f.Cluster != (Cluster{}) {
		return true
	}
	for _, s := range f.Body {
		if i, ok := s.(*Instr); ok && i.clusters() {
			return true
		}
	}
	return false
}

func (i *Instr) clusters() bool {
	if i.Mods.Space == SpaceSharedCluster || i.Op == OpMapa || i.Op == OpGetctarank || i.Op == OpBarrier && i.Mods.Scope == ScopeCluster ||
		i.Mods.Has(Async|CompleteTx) {
		return true
	}
	for k := range i.Args {
		if s := i.Args[k].Special; i.Args[k].Kind == OperandSpecial && s >= ClusterIDX && s <= IsExplicitCluster {
			return true
		}
	}
	return false
}
