package simt

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
)

// fuel is how many instructions of loops native code may run before it comes
// back to Go, whose scheduler and garbage collector cannot stop it in between:
// some ten microseconds.
const fuel = 1 << 15

// maxSites bounds how many pages a worker keeps for native code: each access has
// one, the page that it found last. Loads have the even ones, stores the odd ones.
const maxSites = 1024

// hot is how often native code must be wanted before it is made: by a warp that
// starts or passes the head of a loop, or one of which not all lanes run.
const hot = 16

// NativeCode reports whether kernels are compiled on this machine; the error says why
// they are interpreted.
func NativeCode() error {
	if !nativeWorks {
		return errors.New("the processor lacks AVX-512 (F, BW, DQ and VL)")
	}
	return tryNative()
}

// maxOffset bounds offsets in pages that native code accesses, which takes them as
// signed numbers of 32 bits.
const maxOffset = 1<<31 - 1

// native is the machine code of a kernel.
type native struct {
	once   sync.Once
	kernel *Kernel
	first  int32    // position of the first instruction
	sites  []uint16 // by position from first on: the site of an access
	count  int      // of sites
	full   variant  // for warps with all lanes
	masked variant
}

// variant is made when it is hot, by the worker that finds it so; others go on
// interpreting meanwhile.
type variant struct {
	wanted atomic.Int32
	code   atomic.Pointer[nativeCode]
}

// nativeCode is the machine code of one function.
type nativeCode struct {
	entry uintptr
	at    []uintptr // by position from the first on: where to enter; 0: nowhere
}

// nativeFor returns what there is of the machine code of a kernel, or nil where it
// is not to be used.
func (k *Kernel) nativeFor(when Native) *native {
	if !nativeWorks || when == NativeNever {
		return nil
	}
	n := &k.native
	n.once.Do(func() {
		n.kernel, n.first = k, k.fn.entry
		n.sites = make([]uint16, k.fn.end-k.fn.entry)
		for i := range n.sites {
			if in := &k.prog.code[int(n.first)+i]; isAccess(in) {
				at := 2 * (n.count % (maxSites / 2))
				if stores(in.op) {
					at++
				}
				n.sites[i] = uint16(at)
				n.count++
			}
		}
		n.count = min(2*n.count, maxSites)
	})
	if when == NativeAtOnce {
		for _, v := range []*variant{&n.full, &n.masked} {
			if v.wanted.Add(hot) == hot {
				n.make(v)
			}
		}
	}
	return n
}

// make compiles a variant.
func (n *native) make(v *variant) {
	v.code.Store(makeNative(n.kernel.prog, n.kernel.fn, n.sites, v == &n.masked))
}

// want counts a use of the code of a variant that is not there yet.
func (n *native) want(v *variant) {
	if v.wanted.Add(1) == hot {
		n.make(v)
	}
}

// warm is called where warps begin, and where they pass heads of loops.
func (w *warp) warm() {
	if n := w.native; n != nil && n.full.code.Load() == nil {
		n.want(&n.full)
	}
}

// entryAt is where native code may be entered at a position by a warp with the given
// lanes, or nil.
func (n *native) entryAt(pc int32, mask uint32) (code *nativeCode, at uintptr) {
	i := uint32(pc - n.first)
	if code = n.full.code.Load(); code == nil || i >= uint32(len(code.at)) || code.at[i] == 0 {
		return nil, 0
	}
	if mask != allLanes {
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

// runNative runs native code from a place on. It returns the position of an
// instruction that the interpreter has to run; what follows it may be native again.
func (w *warp) runNative(code *nativeCode, at uintptr) int32 {
	f := &w.frame0
	f.entry, f.target, f.mask, f.limit, f.budget, f.fuel, f.seen = code.entry, at, w.mask, w.limit, int64(w.budget), fuel, w.worker.seen
	f.run(w)
	runtime.KeepAlive(code)
	w.budget = int(f.budget)
	w.findPage(f.pc)
	return f.pc
}

// isAccess reports whether an operation is a load or store that may be compiled.
func isAccess(in *inst) bool { return in.op >= opLoad && in.op <= opStoresWide }

// findPage looks up the page of the instruction at pc, if it is an access that
// native code left to the interpreter, so that it finds it the next time.
func (w *warp) findPage(pc int32) {
	in := &w.code[pc]
	if !isAccess(in) || in.space == spaceShared {
		return
	}
	mask := w.mask
	if in.guard != 0 {
		m := w.pr[in.guard-1]
		if in.guardNeg {
			m = ^m
		}
		mask &= m
	}
	if mask == 0 {
		return
	}
	need := gpu.ProtRead
	if stores(in.op) {
		need = gpu.ProtWrite
	}
	if e := w.worker.translate(w.r64[in.a][firstOf(mask)]+in.imm, need); e != nil {
		w.worker.sites[w.native.sites[pc-w.native.first]] = site{base: e.base, outside: ^e.mask | ^uint64(maxOffset), page: e.page}
	}
}

// stores reports whether an access writes.
func stores(op opcode) bool { return op >= opStore && op != opLoads && op != opLoadsWide }
