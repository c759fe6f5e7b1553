package jit

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// fuel is how many instructions of loops native code may run before it comes
// back to Go, whose scheduler and garbage collector cannot stop it in between:
// some ten microseconds.
const fuel = 1 << 15

// maxSites bounds how many pages a worker keeps for native code: each access has
// one, the page that it found last. Loads have the even ones, stores the odd ones.
const maxSites = 1024

// A worker's sites begin with two tables of the pages that its accesses found, one for loads and
// one for stores, where an access that changes its page looks first. The place of a page in them
// is its number, modulo their size.
const (
	tableBits  = 6
	tableSites = 1 << tableBits
	ownSites   = 2 * tableSites // the first that belongs to one access
)

// NativeCode reports whether kernels are compiled on this machine; the error says why
// they are interpreted.
func NativeCode() error {
	if InUse() == Interpreted {
		return errors.New("the processor lacks SSE4.2, SSSE3 or POPCNT")
	}
	return tryNative()
}

// ISA is what kernels are compiled for.
type ISA int32

const (
	Interpreted ISA = iota // nothing
	Plain                  // vectors of 128 bits, of SSE4.2: x86-64-v2
	AVX2                   // pairs of vectors of 256 bits
	AVX512                 // vectors of 512 bits
)

// String returns the name of an ISA.
func (i ISA) String() string { return [...]string{"interpreted", "plain", "avx2", "avx512"}[i] }

var inUse = newInUse()

func newInUse() *atomic.Int32 {
	isa := new(atomic.Int32)
	isa.Store(int32(best()))
	return isa
}

// InUse returns what this process compiles for: the most that the processor has, which GODEBUG
// (cpu.avx512f=off, cpu.avx2=off, cpu.sse42=off) can make less.
func InUse() ISA { return ISA(inUse.Load()) }

// Use makes the process compile for an ISA from now on, if the processor has it, and reports whether it
// has. Tests use it to run all of them on one machine. Kernels that were launched before stay what they
// are.
func Use(isa ISA) bool {
	if isa > best() {
		return false
	}
	inUse.Store(int32(isa))
	return true
}

// Code is the machine code of a kernel, or of a function that kernels call.
type Code struct {
	once   sync.Once
	prog   *ir.Program
	fn     *ir.Function
	isa    ISA
	first  int32    // position of the first instruction
	sites  []uint16 // by position from first on: the site of an access
	count  int      // of sites
	ring   ringKind
	crew   crewKind
	atoms  bool         // it has operations that need an area
	calls  bool         // it has calls, or is called
	kept   atomic.Int32 // the most places that a variant keeps; those with code are counted
	enough int32        // how often a variant must be wanted
	full   variant      // for warps with all lanes
	masked variant
	charge *atomic.Int64 // see ChargeTo; may be nil
	reach  sync.Once
	table  []*Code // of the functions that the kernel may call, by their numbers; nil: none, and of one it may not
	inRows shaped  // for launches of some sizes
	plain  *Code   // for the others, of code that is for such
	tiled  bool    // such code was first wanted for blocks of several rows

	classed sync.Once
	classes []Cause // by position from first on; see cause.go
}

// variant is made when it is hot: by the worker that finds it so, or in the background (see later.go).
// Others go on interpreting meanwhile.
type variant struct {
	wanted atomic.Int32
	code   atomic.Pointer[machineCode]
}

// NativeCode is the machine code of one function.
type machineCode struct {
	entry  uintptr
	at     []uintptr          // by position from the first on: where to enter; 0: nowhere
	kept   int32              // how many places it keeps, see kept.go
	told   map[int32]uintptr  // by position behind a barrier: where to enter by a warp that waits there
	backs  map[callOf]uintptr // where a function returns to
	called uintptr            // where native code calls it; 0: it does not

	failed bool // the compiler did
}

// Prepare makes n ready for a launch of a kernel, or for calls in one, and returns it, or nil where
// native code is not to be used.
func (n *Code) Prepare(p *ir.Program, fn *ir.Function, when Native) *Code {
	if InUse() == Interpreted || when == NativeNever {
		return nil
	}
	n.once.Do(func() {
		n.prog, n.fn, n.first, n.isa, n.ring = p, fn, fn.Entry, InUse(), ringOf(p, fn)
		n.crew = crewOf(p, fn)
		n.enough = enough(p, fn, n.isa)
		n.calls = !fn.Kernel || slices.ContainsFunc(p.Code[fn.Entry:fn.End], func(in ir.Inst) bool { return in.Kind == ir.KCall })
		n.sites = make([]uint16, fn.End-fn.Entry)
		for i := range n.sites {
			in := &p.Code[int(n.first)+i]
			if hasPage(in) {
				at := 2 * (n.count % (maxSites / 2))
				if writes(in) {
					at++
				}
				n.sites[i] = uint16(at)
				n.count++
			}
			n.atoms = n.atoms || needsArea(in)
		}
		n.count = min(2*n.count, maxSites)
	})
	if when == NativeAtOnce {
		for _, v := range []*variant{&n.full, &n.masked} {
			if v.wanted.Load() < n.enough && v.wanted.Add(n.enough) < 2*n.enough {
				n.compile(v)
			}
		}
	}
	return n
}

// PrepareCalled is Prepare for a function that is called in launches of a kernel. It returns nil, too,
// where the two were made for processors that differ.
func (n *Code) PrepareCalled(kernel *Code, p *ir.Program, fn *ir.Function, when Native) *Code {
	if n = n.Prepare(p, fn, when); n == nil || n.isa != kernel.isa {
		return nil
	}
	return n
}

// compile makes the code of a variant. If the compiler fails, which is a fault of it, the function stays interpreted.
func (n *Code) compile(v *variant) {
	defer func() {
		if cause := recover(); cause != nil {
			fail(n.fn.Name, cause)
			v.code.Store(&machineCode{failed: true})
		}
	}()
	code := makeNative(n.prog, n.fn, n.sites, codeKind{masked: v == &n.masked, inRows: n.plain != nil, tiled: n.tiled, isa: n.isa})
	for kept := n.kept.Load(); code.kept > kept && !n.kept.CompareAndSwap(kept, code.kept); kept = n.kept.Load() {
	}
	v.code.Store(code)
}

// keeps is how many places the code may keep that runs a warp of n's kernel or function.
func (n *Code) keeps() int32 {
	if n.calls {
		return maxKept // of other functions, too
	}
	return n.kept.Load()
}

// want counts a use of the code of a variant that is not there yet. It is not inlined
// into those that most often find code.
//
//go:noinline
func (n *Code) want(v *variant) {
	if v.wanted.Load() >= n.enough || v.wanted.Add(1) != n.enough {
		return
	}
	if isSmall(n.fn, n.isa) {
		n.compile(v)
	} else {
		n.compileLater(v)
	}
}

// Warm counts a warp that begins, or passes the head of a loop, until there is code.
func (n *Code) Warm() {
	if n.full.code.Load() == nil {
		n.want(&n.full)
	}
}

// Sites are the pages that a worker keeps for native code.
type Sites struct {
	pages []Site
	area  []byte             // of the code for AVX2, and of atomic operations
	found bool               // some page
	sizes [maxSizes + 1]size // of the pages in the tables, most of them; the rest are empty
}

// maxSizes bounds the sizes of pages that native code tries for the lanes of one access.
const maxSizes = 10

// size is a size of pages, as shifts of an address: less siteBits, and whole.
type size struct{ less, whole uint64 }

// NewSites makes room for the pages that a worker keeps for n and, where it calls others, for those. Sites
// that two functions have in common tell each other's pages by their addresses.
func (n *Code) NewSites(calls bool) *Sites {
	count := n.count
	if calls {
		count = maxSites
	}
	s := &Sites{pages: make([]Site, ownSites+count)}
	if n.isa != AVX512 || n.atoms || calls {
		s.area = newArea()
	}
	return s
}

// Drop forgets all pages. Most launches of kernels that are short have found none: native code
// only takes over what findPage found.
func (s *Sites) Drop() {
	if s != nil && s.found {
		clear(s.pages)
		s.found, s.sizes = false, [maxSizes + 1]size{}
	}
}

// EntryAt is where native code may be entered at a position by a warp with the given
// lanes, or nil.
func (n *Code) EntryAt(pc int32, mask uint32) (code *machineCode, at uintptr) {
	i := uint32(pc - n.first)
	if code = n.full.code.Load(); code == nil || i >= uint32(len(code.at)) || code.at[i] == 0 {
		return nil, 0
	}
	if mask != ir.AllLanes {
		if code = n.masked.code.Load(); code == nil {
			n.want(&n.masked)
			return nil, 0
		}
		if i >= uint32(len(code.at)) {
			return nil, 0
		}
	}
	return code, code.at[i]
}

// Run runs code from a place on, for a warp whose registers in view are those of n's
// kernel. It returns the position of an instruction that the interpreter has to run, for the lanes
// that w.Mask has then, and the limit of those; what follows it may be native again. The code leaves where the
// word is not the one that was seen.
func (n *Code) Run(f *Frame, w *ir.Warp, sites *Sites, code *machineCode, at uintptr, by Turn) (pc, limit int32) {
	f.seen = by.Seen
	f.enter(n, w, code.entry, at, by)
	n.native(f)
	runtime.KeepAlive(code)
	w.Budget = int(f.budget)
	f.giveBack(w)
	n.codeAt(f, w).findPage(w, sites, f.pc)
	return f.pc, f.limit
}

// prepare makes a warp of which all lanes run ready to enter native code where it is. It reports false if it cannot.
func (n *Code) prepare(f *Frame, w *ir.Warp, seen uint64) bool {
	code, at := n.EntryAt(w.PC, w.Mask)
	if at == 0 {
		return false
	}
	f.seen = seen
	f.enter(n, w, code.entry, at, Turn{Limit: noLimit})
	return true
}

// isAccess reports whether an operation is a load, a store or an atomic one, that may be compiled.
func isAccess(in *ir.Inst) bool { return in.Op >= ir.OpLoad && in.Op <= ir.OpAtom }

// hasPage reports whether an operation accesses a page that its site knows.
func hasPage(in *ir.Inst) bool {
	return isAccess(in) || in.Op == ir.OpCopy || in.Op == ir.OpTransfer || in.Op == ir.OpTransferOut
}

// writes reports whether it writes there.
func writes(in *ir.Inst) bool {
	return isAccess(in) && stores(in.Op) || in.Op == ir.OpTransferOut
}

// needsArea reports whether native code of an operation has a part of the worker's area.
func needsArea(in *ir.Inst) bool {
	switch op := in.Op; {
	case op == ir.OpAtom, op == ir.OpMatchAny, op == ir.OpRedux, op == ir.OpMatrix, op >= ir.OpCopy && op <= ir.OpTransferOut:
		return true
	}
	return isAccess(in) && (in.Neg || in.Target < 4 && stores(in.Op))
}

// findPage looks up the page of the instruction at pc, if it is an access that
// native code left to the interpreter, so that it finds it the next time.
func (n *Code) findPage(w *ir.Warp, sites *Sites, pc int32) {
	if n == nil {
		return
	}
	in := &n.prog.Code[pc]
	n.wrapped(in)
	reg, imm := in.A, in.Imm
	switch {
	case in.Op == ir.OpCopy:
		reg, imm = in.B, in.X.Copy.Offset
	case !hasPage(in) || in.Space != ir.SpaceGlobal && in.Space != ir.SpaceGeneric:
		return
	}
	mask := w.Mask
	if in.Guard != 0 {
		m := w.Pr[in.Guard-1]
		if in.GuardNeg {
			m = ^m
		}
		mask &= m
	}
	if mask == 0 {
		return
	}
	need, table := gpu.ProtRead, sites.pages[:tableSites]
	if writes(in) {
		need, table = gpu.ProtRead|gpu.ProtWrite, sites.pages[tableSites:ownSites]
	}
	first := ir.FirstOf(mask)
	va := w.R64[reg][first] + imm
	if space, _ := ir.WindowOf(va); space != ir.SpaceGlobal {
		return // no page of memory
	}
	e := w.Worker.TLB.Translate(va, need)
	if e == nil {
		return
	}
	sites.pages[ownSites+n.sites[pc-n.first]], sites.found = *sites.enter(table, e), true
	for m := mask &^ (1 << first); m != 0; m &= m - 1 { // where lanes lie in several pages
		if va := w.R64[reg][ir.FirstOf(m)] + imm; va&^e.Mask != e.Base {
			if e = w.Worker.TLB.Translate(va, need); e == nil {
				return
			}
			sites.enter(table, e)
		}
	}
}

// stores reports whether an access writes. Pages of stores may be read, too, as atomic operations do.
func stores(op ir.Opcode) bool { return op >= ir.OpStore && op != ir.OpLoads && op != ir.OpLoadsWide }

// Native says when a kernel is compiled to native code, where that is possible
// (see doc.go). Results do not depend on it.
type Native uint8

const (
	NativeHot    Native = iota // once it is worth it
	NativeAtOnce               // before it runs
	NativeNever
)
