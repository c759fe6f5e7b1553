package jit

import (
	"sync/atomic"
	"unsafe"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// Frame is what machine code knows of the warp that runs it. Its pointers keep
// what they point to alive.
type Frame struct {
	r32, r64, preds uintptr        // the registers in view, which the warp keeps alive
	entry, target   uintptr        // of the code: its start, and where to go from there
	sites           unsafe.Pointer // of the worker
	table           unsafe.Pointer // *nativeTable
	word            unsafe.Pointer // *uint64, Control.word
	seen            uint64         // what it is while the worker has nothing to look at
	tid             unsafe.Pointer // *[3][32]uint32
	block           unsafe.Pointer // *[9]uint32, block.words
	params          unsafe.Pointer // the parameter block
	shared          unsafe.Pointer // .shared, or nil
	local           unsafe.Pointer // .local of the warp, or nil
	localEnd        uint64         // the first address in .local that it does not have
	localBase       uint64         // the address in .local where the memory of the frame begins
	rows            uintptr        // and that memory; 0 if the function has none
	budget          int64          // as of the warp
	fuel            int64
	own             uint64                     // first address in .shared
	limits          [11]uint64                 // limits[n]: the first offset in .shared at which no 1<<(n-1) bytes fit
	sizes           unsafe.Pointer             // *Sites.sizes of the worker
	area            unsafe.Pointer             // *Sites.area of the worker
	places          [maxPlaces + maxKept]place // of registers of a block of operations, and of those in kept.go
	groups          [groupsOfLanes]uint64      // of a load: the host's addresses of their first lanes
	left            [4]uint32                  // lanes whose pages are not found yet, in groups of 8
	mask            uint32
	limit           int32          // as of the warp
	pc              int32          // out: where the interpreter goes on
	passed          int32          // out: where the warp goes on behind the last barrier that it came to; see ring.go
	parked          int32          // out: where the warp goes on, which has had its first turn; see ring.go
	place           int32          // in the order of the ring
	barrier         int32          // the number of the barrier that the warp came to last
	kept            int32          // how many places the code keeps, see kept.go
	fresh           int64          // the budget of the warp behind its first turn; 0: it has had that
	next            unsafe.Pointer // *Frame of the warp that runs while this one waits at a barrier, or nil
	before          unsafe.Pointer // and of the one of which this is the next
	chain           unsafe.Pointer // *Frame of the warp that begins when this one has ended, or nil; see chain.go
	asks            int32          // out: not 0 if the operation at pc is to be done, and the warp to go on at target; see help.go
	warp            *ir.Warp       // that runs
	note            func(pc int32) // called for each operation that is asked for; may be nil
	calls           *Calls         // nil: native code makes none

	ofWarp [ir.WarpWords]uint32 // what OpOfWarp gives

	// What the warp has of its crew, see crew.go; nil: it is in none.
	crew   *Crew
	bit    uint32 // of the warp, in the crew's sets
	trues  uint32 // out: what the last barrier that combines predicates gave
	falses uint32
	held   uint32 // lanes that are held at a barrier, see hold.go
	heldAt int32  // and its position
	tiles  uint32 // lanes of which the groups have not had their results, see tiles.go

	// The fragments that wait while another one runs, see apart.go.
	full, masked variantAt
	live         uint32 // lanes that have not exited
	count        int64  // of waits behind the first, in bytes
	turn         uint64
	waits        [maxFragments + 1 + maxCalls]waiting
	turns        [maxFragments + 1 + maxCalls]uint64 // by number in waits: in which order they began to wait

	quad [quadWords][32]uint32 // what lanes store together, see quads.go
}

// variantAt is where the code of a variant is.
type variantAt struct {
	entry uintptr
	at    unsafe.Pointer // *uintptr, by position from the function's first on: where to enter, or 0; nil: there is no code
}

// holds sets where the code of a variant is; c may be nil.
func (v *variantAt) holds(c *machineCode) {
	if c == nil || len(c.at) == 0 {
		*v = variantAt{}
		return
	}
	v.entry, v.at = c.entry, unsafe.Pointer(unsafe.SliceData(c.at)) // read by positions in the function, which it has all of
}

// Site is memory that native code may access: a page, and the extent that it is part of (extent.go).
type Site struct {
	from  uint64         // the extent's first address
	bytes uint64         // of the extent; 0: the site is empty
	host  unsafe.Pointer // the host's memory of from; keeps it alive
	tag   uint64         // the page's base, and in its low bits the shift from an address to the page's number, less siteBits; 0 if empty
	page  unsafe.Pointer // the host's memory of the page
	_     [3]uint64      // siteBits
}

// endsAt reports whether another extent continues x, for the guest and on the host.
func (x *Site) endsAt(y *Site) bool {
	return x.from+x.bytes == y.from && uintptr(x.host)+uintptr(x.bytes) == uintptr(y.host) // addresses are only compared
}

// maxPlaces bounds the registers of which native code knows how their lanes lie in .shared.
const maxPlaces = 8

// maxKept bounds those of which it keeps that.
const maxKept = 12

// groupsOfLanes is how many groups of lanes a warp has, see groups.go.
const groupsOfLanes = 4

// place is how the lanes of a register lie, see places.go.
type place struct {
	kind  uint64
	reach uint64 // the kind of which all is inside that the accesses by the register have; 0: none
	first [2]uint64
	host  [groupsOfLanes]uint64 // of the lowest of these accesses, for the first lanes of halves or groups, if reach is not 0
}

// rowShift is how far to the left an address in .local moves to be the offset of its row: a row has
// 128 bytes, a word of it 4. maxLocal bounds the .local memory that native code accesses, by offsets
// of 31 bits.
const (
	rowShift = 5
	maxLocal = 1 << (31 - rowShift)
)

// siteBits is the logarithm of the size of a Site: native code has offsets in a table without
// another shift.
const siteBits = 6

// nativeTable is the constants of native code. Vectors begin where a line of the cache does: those that lie in two are slower
// to load.
type nativeTable struct {
	step64      [strideKinds][16]uint64 // lane times 1, 2, 4, 8 and so on
	step32      [strideKinds][16]uint32
	every2      [2][16]uint32 // permutations that part and join elements
	every4      [2][16]uint32
	every2Pairs [2][16]uint32
	turned      [2][2][16]uint32 // of lanes from 0 and from 16 on: words of rows 2t and 2t+1
	turnedBy    [16]uint32       // and how much higher the column's element is there
	join        [2][16]uint32
	joinPairs   [2][16]uint32
	bytes       [16]uint32 // the bytes of a lane, of four lanes
	lanes       [32]uint32 // their numbers
	ofLane      [ir.LaneWords][32]uint32

	doubles                        [96]uint64             // theDoubles
	words                          [96]uint32             // theWords
	parts64                        [strideKinds][4]uint64 // what parts of a register are more than the first, see strides.go
	parts32                        [strideKinds][2]uint32
	ones                           uint64
	oneD                           uint64
	nan, one, oneF, byte, n31      uint32
	n32, sign, abs, huge, inf, b31 uint32
}

var theTable = makeTable()

func makeTable() *nativeTable {
	t := &nativeTable{
		ones: 1<<64 - 1, oneD: 1023 << 52, nan: scalar.NaN32, one: 1, oneF: 127 << 23, byte: 0xff, n31: 31, n32: 32,
		sign: 1 << 31, abs: 1<<31 - 1, huge: 0x7e800000, inf: 0x7f800000, b31: 0x4f000000,
	}
	copy(t.doubles[:len(theDoubles)], theDoubles)
	copy(t.words[:len(theWords)], theWords)
	for i := range uint32(32) {
		for n, x := range [ir.LaneWords]uint32{ir.LaneID: i, ir.LaneMaskEQ: 1 << i, ir.LaneMaskLT: 1<<i - 1, ir.LaneMaskLE: 2<<i - 1, ir.LaneMaskGE: -(1 << i), ir.LaneMaskGT: -(2 << i)} {
			t.ofLane[n][i] = x
		}
	}
	for i := range uint32(16) {
		t.bytes[i] = i % 4 * 0x04040404
		t.lanes[i], t.lanes[16+i] = i, 16+i
		t.turnedBy[i] = i / 4 % 2 * 16
		for h := range uint32(2) {
			t.turned[h][0][i] = i%4*8 + (i/4+4*h)/2
			t.turned[h][1][i] = t.turned[h][0][i] + 4
		}
		for s := range strideKinds {
			t.step64[s][i], t.step32[s][i] = uint64(i)<<s, i<<s
			t.parts64[s][i%4], t.parts32[s][i%2] = uint64(i%4)*8<<s, i%2*16<<s
		}
		for k := range uint32(2) {
			t.every2[k][i] = 2*i + k
			t.every4[k][i] = i%8*4 + i/8 + 2*k
			t.every2Pairs[k][i] = i/2*4 + i%2 + 2*k
			t.join[k][i] = i/2 + 8*k + i%2*16
			t.joinPairs[k][i] = i/4*2 + i%2 + 8*k + i/2%2*16
		}
	}
	return t
}

// Places in nativeFrame, site and nativeTable.
const (
	offR32       = int32(unsafe.Offsetof(Frame{}.r32))
	offR64       = int32(unsafe.Offsetof(Frame{}.r64))
	offPreds     = int32(unsafe.Offsetof(Frame{}.preds))
	offTarget    = int32(unsafe.Offsetof(Frame{}.target))
	offSites     = int32(unsafe.Offsetof(Frame{}.sites))
	offTable     = int32(unsafe.Offsetof(Frame{}.table))
	offWord      = int32(unsafe.Offsetof(Frame{}.word))
	offSeen      = int32(unsafe.Offsetof(Frame{}.seen))
	offTID       = int32(unsafe.Offsetof(Frame{}.tid))
	offBlock     = int32(unsafe.Offsetof(Frame{}.block))
	offParams    = int32(unsafe.Offsetof(Frame{}.params))
	offShared    = int32(unsafe.Offsetof(Frame{}.shared))
	offLocal     = int32(unsafe.Offsetof(Frame{}.local))
	offLocalEnd  = int32(unsafe.Offsetof(Frame{}.localEnd))
	offLocalBase = int32(unsafe.Offsetof(Frame{}.localBase))
	offRows      = int32(unsafe.Offsetof(Frame{}.rows))
	offBudget    = int32(unsafe.Offsetof(Frame{}.budget))
	offFuel      = int32(unsafe.Offsetof(Frame{}.fuel))
	offOwn       = int32(unsafe.Offsetof(Frame{}.own))
	offLimits    = int32(unsafe.Offsetof(Frame{}.limits))
	offSizes     = int32(unsafe.Offsetof(Frame{}.sizes))
	offArea      = int32(unsafe.Offsetof(Frame{}.area))
	offPlaces    = int32(unsafe.Offsetof(Frame{}.places))
	offGroups    = int32(unsafe.Offsetof(Frame{}.groups))
	offLeft      = int32(unsafe.Offsetof(Frame{}.left))
	offMask      = int32(unsafe.Offsetof(Frame{}.mask))
	offLimit     = int32(unsafe.Offsetof(Frame{}.limit))
	offPC        = int32(unsafe.Offsetof(Frame{}.pc))
	offPassed    = int32(unsafe.Offsetof(Frame{}.passed))
	offNext      = int32(unsafe.Offsetof(Frame{}.next))
	offBefore    = int32(unsafe.Offsetof(Frame{}.before))
	offFresh     = int32(unsafe.Offsetof(Frame{}.fresh))
	offPlace     = int32(unsafe.Offsetof(Frame{}.place))
	offBarrier   = int32(unsafe.Offsetof(Frame{}.barrier))
	offParked    = int32(unsafe.Offsetof(Frame{}.parked))
	offChain     = int32(unsafe.Offsetof(Frame{}.chain))
	offAsks      = int32(unsafe.Offsetof(Frame{}.asks))
	offEntry     = int32(unsafe.Offsetof(Frame{}.entry))
	offOfWarp    = int32(unsafe.Offsetof(Frame{}.ofWarp))
	offTiles     = int32(unsafe.Offsetof(Frame{}.tiles))
	offFull      = int32(unsafe.Offsetof(Frame{}.full))
	offMasked    = int32(unsafe.Offsetof(Frame{}.masked))
	offLive      = int32(unsafe.Offsetof(Frame{}.live))
	offCount     = int32(unsafe.Offsetof(Frame{}.count))
	offTurn      = int32(unsafe.Offsetof(Frame{}.turn))
	offWaits     = int32(unsafe.Offsetof(Frame{}.waits))
	offQuad      = int32(unsafe.Offsetof(Frame{}.quad))
	offTurns     = int32(unsafe.Offsetof(Frame{}.turns))
	variantTable = int32(unsafe.Offsetof(variantAt{}.at))
	waitBytes    = int32(unsafe.Sizeof(waiting{}))
	waitMask     = int32(unsafe.Offsetof(waiting{}.mask))

	siteBytes  = int32(unsafe.Sizeof(Site{}))
	sizeBytes  = int32(unsafe.Sizeof(size{}))
	placeBytes = int32(unsafe.Sizeof(place{}))
	placeKind  = int32(unsafe.Offsetof(place{}.kind))
	placeReach = int(unsafe.Offsetof(place{}.reach) - unsafe.Offsetof(place{}.kind))
	placeFirst = int(unsafe.Offsetof(place{}.first) - unsafe.Offsetof(place{}.kind))
	placeHost  = int(unsafe.Offsetof(place{}.host) - unsafe.Offsetof(place{}.kind))
	siteFrom   = int(unsafe.Offsetof(Site{}.from))
	siteExtent = int(unsafe.Offsetof(Site{}.bytes))
	siteHost   = int(unsafe.Offsetof(Site{}.host))
	siteTag    = int(unsafe.Offsetof(Site{}.tag))
	sitePage   = int(unsafe.Offsetof(Site{}.page))

	offStep64    = int32(unsafe.Offsetof(nativeTable{}.step64))
	offStep32    = int32(unsafe.Offsetof(nativeTable{}.step32))
	offParts64   = int32(unsafe.Offsetof(nativeTable{}.parts64))
	offParts32   = int32(unsafe.Offsetof(nativeTable{}.parts32))
	offEvery2    = int32(unsafe.Offsetof(nativeTable{}.every2))
	offEvery4    = int32(unsafe.Offsetof(nativeTable{}.every4))
	offEvery2Two = int32(unsafe.Offsetof(nativeTable{}.every2Pairs))
	offTurned    = int32(unsafe.Offsetof(nativeTable{}.turned))
	offTurnedBy  = int32(unsafe.Offsetof(nativeTable{}.turnedBy))
	offJoin      = int32(unsafe.Offsetof(nativeTable{}.join))
	offJoinPairs = int32(unsafe.Offsetof(nativeTable{}.joinPairs))
	offOnes      = int32(unsafe.Offsetof(nativeTable{}.ones))
	offOneD      = int32(unsafe.Offsetof(nativeTable{}.oneD))
	offNaN       = int32(unsafe.Offsetof(nativeTable{}.nan))
	offOne       = int32(unsafe.Offsetof(nativeTable{}.one))
	offOneF      = int32(unsafe.Offsetof(nativeTable{}.oneF))
	offByte      = int32(unsafe.Offsetof(nativeTable{}.byte))
	off31        = int32(unsafe.Offsetof(nativeTable{}.n31))
	off32        = int32(unsafe.Offsetof(nativeTable{}.n32))
	offSign      = int32(unsafe.Offsetof(nativeTable{}.sign))
	offAbs       = int32(unsafe.Offsetof(nativeTable{}.abs))
	offHuge      = int32(unsafe.Offsetof(nativeTable{}.huge))
	offInf       = int32(unsafe.Offsetof(nativeTable{}.inf))
	offTwo31     = int32(unsafe.Offsetof(nativeTable{}.b31))
	offBytes     = int32(unsafe.Offsetof(nativeTable{}.bytes))
	offLanes     = int32(unsafe.Offsetof(nativeTable{}.lanes))
	offOfLane    = int32(unsafe.Offsetof(nativeTable{}.ofLane))
	offDoubles   = int32(unsafe.Offsetof(nativeTable{}.doubles))
	offWords     = int32(unsafe.Offsetof(nativeTable{}.words))
)

// Prepare sets what does not change in the life of the warp.
func (f *Frame) Prepare(w *ir.Warp, sites *Sites, word *atomic.Uint64) {
	b := w.Block
	f.warp, f.note, f.calls = w, nil, nil
	f.area = unsafe.Pointer(unsafe.SliceData(sites.area))                                                                   // accessed within its bounds, which are known when code is made
	f.sizes = unsafe.Pointer(&sites.sizes)                                                                                  // ends with a zero, where native code stops
	f.sites, f.table = unsafe.Pointer(unsafe.SliceData(sites.pages)), unsafe.Pointer(theTable)                              // of the worker, which owns the warp
	f.word = unsafe.Pointer(word)                                                                                           // only read; aligned, so loads are atomic
	f.tid, f.block, f.params = unsafe.Pointer(&w.Tid), unsafe.Pointer(&b.Words), unsafe.Pointer(unsafe.SliceData(b.Params)) // accessed within their bounds, which are known when code is made
	f.shared = unsafe.Pointer(unsafe.SliceData(b.Shared))                                                                   // guarded by limits
	f.own = b.Own()
	f.ofWarp = [ir.WarpWords]uint32{ir.WarpID: uint32(w.Index), ir.WarpCount: uint32(b.WarpCount), ir.WarpWorker: uint32(w.Worker.ID), ir.WarpWorkers: uint32(w.Worker.Workers)}
	for n := range f.limits {
		if size := 1 << n >> 1; len(b.Shared) >= size {
			f.limits[n] = uint64(len(b.Shared) - size + 1)
		}
	}
}

// areaAlign is what addresses of areas are multiples of: instructions of 128 bits need that.
const areaAlign = 16

// aligned is the memory from the first address on that is a multiple of areaAlign. What is allocated does not move.
func aligned(m []byte) []byte { return m[-addressOf(m)%areaAlign:] }

// addressOf is the address of code.
func addressOf(m []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) } // mapped memory, which does not move

// enter sets where code of n begins and which registers it sees: those in view, as many as
// the code's function has. It takes over the fragments that wait.
func (f *Frame) enter(n *Code, w *ir.Warp, entry, at uintptr, by Turn) {
	f.entry, f.target, f.mask, f.live, f.fuel = entry, at, w.Mask, w.Live, fuel
	f.takeOver(n, w, by)
	f.kept = n.keeps() // of the code that the frame knows of since takeOver
	f.view(w)
}

// forgetKept forgets the places that are kept: operations were done that may have written their registers.
func (f *Frame) forgetKept() {
	for i := range f.places[maxPlaces : maxPlaces+f.kept] {
		p := &f.places[maxPlaces+i]
		p.kind, p.reach = 0, 0
	}
}

// baseOf is the address of element n of s, or of its end.
func baseOf[T any](s []T, n int) uintptr {
	var one T
	return uintptr(unsafe.Pointer(unsafe.SliceData(s))) + uintptr(n)*unsafe.Sizeof(one)
}

// view sets what native code sees of the warp's registers and memory.
func (f *Frame) view(w *ir.Warp) {
	f.budget = int64(w.Budget)
	f.forgetKept()
	f.r32, f.r64, f.preds = uintptr(unsafe.Pointer(unsafe.SliceData(w.R32))), uintptr(unsafe.Pointer(unsafe.SliceData(w.R64))), uintptr(unsafe.Pointer(unsafe.SliceData(w.Pr))) // accessed by numbers below the function's
	f.local = unsafe.Pointer(unsafe.SliceData(w.Local))                                                                                                                         // guarded by localEnd; only Go moves it
	f.localEnd = uint64(min(4*len(w.Local), maxLocal))
	f.localBase, f.rows = 0, 0
	if at := w.Frame; at != nil { // a function without registers of a file has them nowhere, and what it calls behind them
		f.r32, f.r64, f.preds = baseOf(w.Store32, at.Base32), baseOf(w.Store64, at.Base64), baseOf(w.StorePr, at.BasePr)
		f.localBase = 4 * uint64(at.Base)
	}
	if w.Frame != nil && w.Frame.Fn.LocalBytes != 0 {
		f.rows = uintptr(unsafe.Pointer(&w.Local[w.Frame.Base])) // accessed below the function's LocalBytes, which the frame has
	}
	if f.calls != nil {
		f.calls.ends(w)
	}
}

// link makes the warp of f begin when that of another frame, or nil, has ended.
func (f *Frame) link(before *Frame) {
	f.pc = nowhere
	if before != nil {
		before.chain = unsafe.Pointer(f) // of the same block, as in join
	}
}

// unlink takes a frame from its chain.
func (f *Frame) unlink() { f.chain = nil }

// join makes a frame one of a ring, and of its warp one that has not left yet.
func (f *Frame) join(before, next *Frame) {
	f.before, f.next = unsafe.Pointer(before), unsafe.Pointer(next) // of the same block, whose warps stay where they are
	f.pc, f.passed, f.parked = nowhere, nowhere, nowhere
}
