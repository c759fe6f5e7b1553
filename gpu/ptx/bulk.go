package ptx

// Words are modifiers of bulk copies, tensor maps and their fences that are either there or not,
// as Flags are.
type Words uint64

// Words.
const (
	Bulk           Words = 1 << iota // cp.async.bulk
	Tensor                           // cp.async.bulk.tensor
	Prefetched                       // cp.async.bulk.prefetch
	Reduced                          // cp.reduce.async.bulk
	FromGlobal                       // where a bulk copy reads
	FromShared                       // where a bulk copy reads
	TxBytes                          // a bulk copy completes at an mbarrier
	BulkGroup                        // or with a group
	Multicast                        // multicast::cluster
	Read                             // wait_group.read
	Tile                             // a bulk copy of a box, tensormap.replace
	Im2col                           // a bulk copy of pixels
	Im2colNoOffs                     // the same of stores
	Replace                          // tensormap.replace
	CopyFence                        // tensormap.cp_fenceproxy
	TensormapProxy                   // fence.proxy.tensormap::generic
	TensormapOf                      // prefetch.tensormap
	B1024
	FieldAddress // of tensormap.replace, as those that follow
	FieldRank
	FieldBox
	FieldDim
	FieldStride
	FieldStep
	FieldType
	FieldInterleave
	FieldSwizzle
	FieldFill
	AsyncGeneric // fence.proxy.async::generic
	RestrictCluster
	RestrictCTA
	CompleteBytes // mbarrier.complete_tx
	numWords      = iota
)

var wordNames = [numWords]string{"bulk", "tensor", "prefetch", "reduce", "global", "shared::cta", "mbarrier::complete_tx::bytes", "bulk_group",
	"multicast::cluster", "read", "tile", "im2col", "im2col_no_offs", "replace", "cp_fenceproxy", "tensormap::generic", "tensormap", "b1024",
	"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode",
	"async::generic", "sync_restrict::shared::cluster", "sync_restrict::shared::cta", "complete_tx"}

// HasWord reports whether all of the words are set.
func (m *Mods) HasWord(w Words) bool { return m.Words&w == w }

// word is a slot for one of some words.
func word(w Words) slot { return slot{field: fieldWord, allowed: uint64(w)} }

// sourceSpace is where a bulk copy or a copy of a tensor map reads.
func (m *Mods) sourceSpace() Space {
	if m.HasWord(FromShared) {
		return SpaceSharedCTA
	}
	return SpaceGlobal
}

// dimensions are the ranks of tensors.
var dimensions = []Geometry{Geometry1D, Geometry2D, Geometry3D, Geometry4D, Geometry5D}

// bulkForms are bulk copies: 9.7.8.
func bulkForms() (f []Form) {
	const s = "9.7.8"
	async, hint := flag(Async), flag(Hint)
	shared, global := pick(fieldSpace, SpaceSharedCTA, SpaceSharedCluster), pick(fieldSpace, SpaceGlobal)
	cluster := pick(fieldSpace, SpaceSharedCluster)
	add := func(args string, slots ...slot) { f = append(f, form(OpCp, s, args, slots...).since(90)) }
	// hinted adds a row, and the same with a policy.
	hinted := func(args string, at int, slots ...slot) {
		add(args, slots...)
		with := append(append(append([]slot{}, slots[:at]...), hint), slots[at:]...)
		add(args+" policy:u64", with...)
	}
	const load, store = "[d [s size:u32 [bar", "[d [s size:u32"
	hinted(load, 5, async, word(Bulk), shared, word(FromGlobal), word(TxBytes))
	hinted(load+" mask:u16", 6, async, word(Bulk), cluster, word(FromGlobal), word(TxBytes), word(Multicast))
	add(load, async, word(Bulk), cluster, word(FromShared), word(TxBytes))
	hinted(store, 5, async, word(Bulk), global, word(FromShared), word(BulkGroup))
	hinted("[s size:u32", 5, async, word(Bulk), word(Prefetched), pick(fieldPrefetch, PrefetchL2), global)
	add("", async, word(Bulk), pick(fieldMode, ModeCommitGroup))
	add("#groups", async, word(Bulk), pick(fieldMode, ModeWaitGroup), opt(word(Read)))

	for _, r := range []struct {
		ops    []Atomic
		toCTA  []Type // types into shared memory
		toMain []Type // and into global memory
		noFTZ  bool
	}{
		{ops: []Atomic{AtomicAdd}, toCTA: []Type{U32, S32, U64}, toMain: []Type{U32, S32, U64, F32, F64}},
		{ops: []Atomic{AtomicAdd}, toMain: []Type{F16, BF16}, noFTZ: true},
		{ops: []Atomic{AtomicMin, AtomicMax}, toCTA: []Type{U32, S32}, toMain: []Type{U32, S32, U64, S64, F16, BF16}},
		{ops: []Atomic{AtomicInc, AtomicDec}, toCTA: []Type{U32}, toMain: []Type{U32}},
		{ops: []Atomic{AtomicAnd, AtomicOr, AtomicXor}, toCTA: []Type{B32}, toMain: []Type{B32, B64}},
	} {
		if r.toCTA != nil {
			add(load, word(Reduced), async, word(Bulk), cluster, word(FromShared), word(TxBytes), pick(fieldAtomic, r.ops...), typ(r.toCTA...))
		}
		slots := []slot{word(Reduced), async, word(Bulk), global, word(FromShared), word(BulkGroup), pick(fieldAtomic, r.ops...)}
		if r.noFTZ {
			slots = append(slots, flag(NoFTZ))
		}
		hinted(store, 6, append(slots, typ(r.toMain...))...)
	}
	return append(f, tensorForms()...)
}

// tensorForms are bulk copies of boxes of tensors: 9.7.8.
func tensorForms() (f []Form) {
	const s = "9.7.8"
	async, hint := flag(Async), flag(Hint)
	shared, global := pick(fieldSpace, SpaceSharedCTA, SpaceSharedCluster), pick(fieldSpace, SpaceGlobal)
	add := func(args string, slots ...slot) { f = append(f, form(OpCp, s, args, slots...).since(90)) }
	ranks, solid := pick(fieldGeometry, dimensions...), pick(fieldGeometry, dimensions[2:]...)
	for _, mode := range []struct {
		dims    slot
		word    slot
		offsets string
	}{{dims: ranks, word: opt(word(Tile))}, {dims: solid, word: word(Im2col), offsets: " {%offsets:u16"}} {
		base := []slot{async, word(Bulk), word(Tensor), mode.dims, shared, word(FromGlobal), mode.word, word(TxBytes)}
		args := "[d [%t [bar" + mode.offsets
		add(args, base...)
		add(args+" policy:u64", append(base, hint)...)
		base = append(append([]slot{}, base...), word(Multicast))
		base[4] = pick(fieldSpace, SpaceSharedCluster)
		add(args+" mask:u16", base...)
		add(args+" mask:u16 policy:u64", append(base, hint)...)
		base = []slot{async, word(Bulk), word(Prefetched), word(Tensor), mode.dims, pick(fieldPrefetch, PrefetchL2), global, mode.word}
		add("[%t"+mode.offsets, base...)
		add("[%t"+mode.offsets+" policy:u64", append(base, hint)...)
	}
	for _, mode := range []struct{ dims, word slot }{{dims: ranks, word: opt(word(Tile))}, {dims: solid, word: word(Im2colNoOffs)}} {
		base := []slot{async, word(Bulk), word(Tensor), mode.dims, global, word(FromShared), mode.word, word(BulkGroup)}
		add("[%t [s", base...)
		add("[%t [s policy:u64", append(base, hint)...)
		base = []slot{word(Reduced), async, word(Bulk), word(Tensor), mode.dims, global, word(FromShared), pick(fieldAtomic, AtomicAdd, AtomicMin, AtomicMax, AtomicInc,
			AtomicDec, AtomicAnd, AtomicOr, AtomicXor), mode.word, word(BulkGroup)}
		add("[%t [s", base...)
		add("[%t [s policy:u64", append(base, hint)...)
	}
	return append(f, mapForms()...)
}

// mapForms edit tensor maps (9.7.8) and order accesses to them (9.7.12).
func mapForms() []Form {
	const s, sync = "9.7.8", "9.7.12"
	space, tile := opt(pick(fieldSpace, SpaceGlobal, SpaceSharedCTA)), word(Tile)
	release, acquire := pick(fieldOrder, OrderRelease), pick(fieldOrder, OrderAcquire)
	scope := pick(fieldScope, ScopeCTA, ScopeCluster, ScopeGPU, ScopeSys)
	return []Form{
		form(OpTensormap, s, "[a value", word(Replace), tile, word(FieldAddress), space, word(B1024), typ(B64)).since(90),
		form(OpTensormap, s, "[a value", word(Replace), tile, word(FieldRank), space, word(B1024), typ(B32)).since(90),
		form(OpTensormap, s, "[a #ord value", word(Replace), tile, word(FieldBox|FieldDim|FieldStep), space, word(B1024), typ(B32)).since(90),
		form(OpTensormap, s, "[a #ord value", word(Replace), tile, word(FieldStride), space, word(B1024), typ(B64)).since(90),
		form(OpTensormap, s, "[a #value", word(Replace), tile, word(FieldType|FieldInterleave|FieldSwizzle|FieldFill), space, word(B1024), typ(B32)).since(90),
		form(OpTensormap, sync, "[d [s #size", word(CopyFence), pick(fieldSpace, SpaceGlobal), word(FromShared), word(TensormapProxy), release, scope,
			flag(Sync), flag(Aligned)).since(90),
		form(OpPrefetch, s, "[a", opt(pick(fieldSpace, SpaceConst, SpaceParam)), word(TensormapOf)).since(90),
		form(OpFence, sync, "", flag(Proxy), word(TensormapProxy), release, scope).since(90),
		form(OpFence, sync, "[a #size", flag(Proxy), word(TensormapProxy), acquire, scope).since(90),
		form(OpFence, sync, "", flag(Proxy), word(AsyncGeneric), acquire, word(RestrictCluster), pick(fieldScope, ScopeCluster)).since(90),
		form(OpFence, sync, "", flag(Proxy), word(AsyncGeneric), release, word(RestrictCTA), pick(fieldScope, ScopeCluster)).since(90),
	}
}

// tensor checks [map, {coordinates}].
func (v *verifier) tensor(i *Instr, o *Operand, n int) bool {
	if o.Kind != OperandTexel {
		return v.mismatch(i, o, n, "must be a tensor map with coordinates in brackets")
	}
	at := *o
	at.Kind, at.Elems = OperandAddr, nil
	if !v.address(i, &at, n) {
		return false
	}
	o.Reg, o.Ref = at.Reg, at.Ref
	if len(o.Elems) == 1 && o.Elems[0].Kind != OperandSink && !v.resolve(i, &o.Elems[0], n) { // perhaps a register of vector type
		return false
	}
	list := o.Coordinates()
	if want := i.Mods.Geometry.Axes(); len(list) != want {
		return v.mismatch(i, o, n, "has %d coordinates, expected %d", len(list), want)
	}
	return v.numbers(i, list, n, S32)
}

// offsets checks the offsets of a copy in im2col mode.
func (v *verifier) offsets(i *Instr, o *Operand, n int, t Type) bool {
	if !v.resolve(i, o, n) {
		return false
	}
	list := []Operand{*o}
	if o.Kind == OperandVector {
		list = o.Elems
	}
	if want := i.Mods.Geometry.Axes() - 2; len(list) != want {
		return v.mismatch(i, o, n, "has %d offsets, expected %d", len(list), want)
	}
	return v.numbers(i, list, n, t)
}

// numbers checks the elements of a list that an instruction reads.
func (v *verifier) numbers(i *Instr, list []Operand, n int, t Type) bool {
	spec := argSpec{}
	for e := range list {
		x := &list[e]
		if x.Kind == OperandSink {
			return v.mismatch(i, x, n, "cannot be _")
		}
		if !v.resolve(i, x, n) || !v.scalar(i, &spec, x, n, t, false) {
			return false
		}
	}
	return true
}
