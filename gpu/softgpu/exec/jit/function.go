//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Bounds on what is compiled: a function beyond them is interpreted.
const (
	maxNativeInsts = 1 << 15
	maxNativeRegs  = 1 << 16
	maxNativeBytes = 4 << 20
	maxNativeLive  = 1 << 20 // words of liveness
)

// headCost is what a loop head takes of nativeFrame.fuel beside the instructions of
// the loop.
const headCost = 8

// emitter compiles one function for warps that run with all lanes, or with any.
type emitter struct {
	cache
	a      x86.Asm
	fn     *ir.Function
	code   []ir.Inst // of the program
	blocks []flowBlock
	number []int32 // block that begins at a position, counted from fn.entry; -1: none
	labels []x86.Label
	masked bool
	pairs  bool // for AVX2, or for less
	narrow bool // for less
	ring   ringKind
	crew   crewKind
	muster crewLabels
	told   map[int32]x86.Label // by position: where a warp is told what the barrier before gave
	backs  map[callOf]x86.Label
	mode   maskMode // of the operation that is compiled
	end    int32    // of the block that it is in
	ending []regRef // what is not needed any more after it
	leave  x86.Label
	start  x86.Label // of the code
	later  []func()  // code off the main path

	fragments fragmentLabels
	simple    bool                        // see isSimple
	callees   map[*ir.Inst][]*ir.Function // see nativeCalls

	fixed32, fixed64 []bool // registers that hold constants
	kills            [][]regRef
	alive            []uint64
	guarded          guardedReads // beside alive; see guarded.go
	entries          []x86.Label  // by position from fn.entry; 0: none
	sites            []uint16
	places           map[regRef]placed
	kept             map[regRef]placed // see kept.go
	early            early             // see beside.go
	claims           claims
	known32          map[uint32]uint32
	known64          map[uint32]uint64
	inRows           bool // a warp's lanes are in one row of the block
	tiled            bool // the block has several rows
	stays            bool // what is compiled does not leave native code
	looked           int  // how many operations were looked at for accesses that have a register in common
}

// maskMode says which lanes an operation writes.
type maskMode uint8

const (
	allOfThem maskMode = iota
	active             // k1 to k4
	guarded            // k5
)

// compiled is the machine code of a variant.
type compiled struct {
	code    []byte
	entries []uint32         // where in it each position of the function is entered, or 0
	called  uint32           // and where native code calls the function, or 0
	kept    int32            // how many places it keeps
	told    map[int32]uint32 // by position behind a barrier: where a warp that waits there is told what that gives, and goes on
	returns map[callOf]uint32
}

// callOf is a call of one function at a position.
type callOf struct {
	pc int32
	fn int // its number
}

// compileFunction makes machine code of a function, for warps with all lanes or
// with any. It returns nil if the function is beyond the bounds.
func compileFunction(p *ir.Program, fn *ir.Function, sites []uint16, kind codeKind) *compiled {
	n := int(fn.End - fn.Entry)
	if n == 0 || n > maxNativeInsts || max(fn.Regs32, fn.Regs64, fn.Preds) > maxNativeRegs {
		return nil
	}
	e := &emitter{fn: fn, code: p.Code, cache: newCache(fn), entries: make([]x86.Label, n+1), sites: sites, places: map[regRef]placed{}, masked: kind.masked, inRows: kind.inRows, tiled: kind.tiled, pairs: kind.isa != AVX512, narrow: kind.isa == Plain, ring: ringOf(p, fn)}
	switch kind.isa {
	case AVX2:
		e.a.MakePairs()
	case Plain:
		e.a.MakeNarrow()
	}
	e.fixed32, e.fixed64 = make([]bool, fn.Regs32), make([]bool, fn.Regs64)
	// Lane 0 of a constant's register stands for all. A call by some lanes writes constants for those only.
	if fn.Kernel || !kind.masked {
		for _, c := range fn.Const32 {
			e.fixed32[c.Reg] = true
		}
		for _, c := range fn.Const64 {
			e.fixed64[c.Reg] = true
		}
	}
	if !e.flow() {
		return nil
	}
	e.findUniform()
	e.findConstants()
	e.findClaims()
	e.findKept()
	e.a.Grow(64 * n)
	e.leave = e.a.NewLabel() // so that no entry has label 0
	e.fragments = fragmentLabels{part: e.a.NewLabel(), meet: e.a.NewLabel(), pick: e.a.NewLabel(), run: e.a.NewLabel()}
	e.simple, e.callees = isSimple(p, fn), nativeCalls(p, fn)
	e.crew = crewOf(p, fn)
	e.told, e.backs = map[int32]x86.Label{}, map[callOf]x86.Label{}
	e.muster = crewLabels{wait: e.a.NewLabel(), arrive: e.a.NewLabel()}
	e.prologue()
	var called x86.Label
	for range e.blocks {
		e.labels = append(e.labels, e.a.NewLabel())
	}
	for i := range e.blocks {
		e.run(i)
		if e.a.Len() > most(maxNativeBytes, kind.isa) {
			return nil
		}
	}
	e.fragmentCode()
	called = e.calledCode()
	e.musterCode()
	e.a.Bind(e.leave)
	e.a.Return()
	if !e.a.Resolve() || e.a.Len() > most(maxNativeBytes, kind.isa) {
		return nil
	}
	out := &compiled{code: e.a.Code(), entries: make([]uint32, n)}
	for i, label := range e.entries[:n] {
		if label != 0 {
			out.entries[i] = uint32(e.a.Offset(label))
		}
	}
	out.returns = map[callOf]uint32{}
	for call, label := range e.backs {
		out.returns[call] = uint32(e.a.Offset(label))
	}
	out.kept, out.told = int32(len(e.kept)), map[int32]uint32{}
	for pc, label := range e.told {
		out.told[pc] = uint32(e.a.Offset(label))
	}
	if called != 0 {
		out.called = uint32(e.a.Offset(called))
	}
	return out
}

// prologue is where native code is entered: it loads what it keeps in registers,
// and goes to the position asked for.
func (e *emitter) prologue() {
	e.start = e.a.NewLabel()
	e.a.Entry(e.start)
	e.a.Bind(e.start)
	e.a.RM(x86.MOV, true, rTable, frameAt(offTable))
	e.a.RM(x86.MOV, false, rMask, frameAt(offMask))
	e.a.RM(x86.MOV, true, x86.Area, frameAt(offArea))
	e.loadView()
	e.a.JumpMem(frameAt(offTarget))
}

// loadView loads where the registers of the function are, and the masks of the lanes in rMask.
func (e *emitter) loadView() {
	e.a.RM(x86.MOV, true, r32base, frameAt(offR32))
	e.a.RM(x86.MOV, true, r64base, frameAt(offR64))
	e.a.RM(x86.MOV, true, rPreds, frameAt(offPreds))
	e.a.RM(x86.MOV, true, rSites, frameAt(offSites))
	if e.masked {
		e.activate()
	}
}

// activate makes the masks of the active lanes.
func (e *emitter) activate() {
	e.a.KFrom(kActive, rMask)
	e.a.KShift(&x86.KSHIFTRD, 2, kActive, 16)
	e.a.KShift(&x86.KSHIFTRD, 3, kActive, 8)
	e.a.KShift(&x86.KSHIFTRD, 4, kActive, 24)
}

func frameAt(off int32) x86.Mem { return x86.Mem{Base: rFrame, Disp: off} }

func constant(off int32) x86.Mem { return x86.Mem{Base: rTable, Disp: off} }

func pred(p uint32) x86.Mem { return x86.Mem{Base: rPreds, Disp: int32(p) * 4} }

// constant reports whether a register has the same value in all lanes, always.
func (c *emitter) constant(file ir.RegKind, reg uint32) bool {
	if file == ir.In64 {
		return c.fixed64[reg]
	}
	return c.fixed32[reg]
}

// run compiles block i and those that follow it by falling through, unless it is
// one of those itself.
func (e *emitter) run(i int) {
	e.clear()
	clear(e.places)
	e.early = early{closed: -1}
	e.a.Bind(e.labels[i])
	if first := e.blocks[i].first; e.enters(&e.code[first]) || e.inRing(first) {
		e.enterable(first)
	}
	chained := e.blocks[i].chained
	for e.body(i) {
		next := i + 1
		if !e.blocks[next].chained || chained {
			e.edge(e.blocks[i].last-1, e.blocks[next].first, false)
			break
		}
		i = next
		e.forget(e.blocks[i].live)
	}
	for len(e.later) > 0 {
		f := e.later[0]
		e.later = e.later[1:]
		f()
	}
}

// enterable makes this place one where the interpreter may enter, at position pc.
// It reports false if there is one already.
func (e *emitter) enterable(pc int32) bool {
	at := &e.entries[pc-e.fn.Entry]
	if *at != 0 {
		return false
	}
	*at = e.a.NewLabel()
	e.a.Entry(*at)
	e.a.Bind(*at)
	return true
}

// forget drops registers that are not in a set.
func (e *emitter) forget(live []uint64) {
	for i := range e.owners {
		if o := &e.owners[i]; o.file != ir.InMemory && !e.isAlive(live, o.file, o.reg) {
			e.drop(o.file, o.reg)
		}
	}
}

// body compiles the operations of a block. It reports whether control falls out of its
// end.
func (e *emitter) body(i int) bool {
	b := &e.blocks[i]
	e.atEnd(i)
	n := int(b.last - b.first)
	for len(e.kills) < n {
		e.kills = append(e.kills, nil)
	}
	for k := n - 1; k >= 0; k-- {
		e.kills[k] = e.kills[k][:0]
		e.before(&e.code[b.first+int32(k)], &e.kills[k])
	}
	e.claims.holds, e.claims.heldTo = e.claims.begin[i], b.first
	behind := int32(0) // the last run of quads
	for pc := b.first; pc < b.last; pc++ {
		in := e.operationAt(pc)
		if pc >= behind {
			if r := e.quadRunAt(pc, b.last); r != nil {
				behind = r.last + 1
				e.byQuads(r, b.last, e.kills[pc-b.first:])
			}
		}
		if in.Kind == ir.KBarrier && e.inRing(pc) {
			e.passBarrier(pc)
			continue
		}
		if endsWarp(in) && e.fn.Kernel && !e.masked { // nothing reads its registers any more
			e.endWarp(pc)
			return false
		}
		if e.endsLanes(in) {
			e.endLanes(pc)
			return false
		}
		switch {
		case e.helped(in):
			e.help(pc)
			continue
		case len(e.callees[in]) != 0:
			e.call(pc, in)
			continue
		case in.Kind == ir.KRet && !e.fn.Kernel:
			e.ret(pc)
			return false
		}
		if !e.known(in) {
			e.exit(pc)
			e.clear()
			clear(e.places)
			for pc+1 < b.last && !e.enters(&e.code[pc+1]) && !e.inRing(pc+1) {
				pc++
			}
			// What comes here next comes from the interpreter.
			if pc+1 == b.last || !e.enterable(pc+1) {
				return false
			}
			continue
		}
		switch in.Kind {
		case ir.KJump:
			e.edge(pc, in.Target, true)
			return false
		case ir.KBranch, ir.KCompareBranch:
			return e.branch(pc, in)
		case ir.KIndexed:
			e.indexed(pc, in)
			return false
		}
		e.end, e.ending = b.last, e.kills[pc-b.first]
		e.operation(pc, in)
		e.unpin()
		e.forgetPlaces(in)
		if e.resumesBehind(pc, b.last) {
			e.resume(pc + 1)
		}
		for _, r := range e.kills[pc-b.first] {
			e.drop(r.kind, r.index)
		}
	}
	return true
}

// resumesBehind reports whether native code is entered behind an operation with what is in vector registers there. At a
// barrier it is entered with what is in memory alone, by passBarrier: what comes there has nothing to save.
func (e *emitter) resumesBehind(pc, last int32) bool {
	if pc+1 < last && e.code[pc+1].Kind == ir.KBarrier && e.inRing(pc+1) {
		return false
	}
	in := &e.code[pc]
	return isAccess(in) || exchanges(in.Op) || in.Op >= ir.OpMatrix && in.Op <= ir.OpTransferOut
}
