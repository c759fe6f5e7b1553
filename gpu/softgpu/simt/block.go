package simt

import (
	"fmt"
	"math/bits"
	"strings"

	"pvdrm/gpu"
)

// barriers is how many a block has (section 9.7.12.1 of the PTX manual).
const barriers = 16

// block is a block that runs on a worker, reused for one after the other.
type block struct {
	prog   *Program
	kernel *Kernel
	launch *Launch
	limits Limits
	id     [3]uint32
	dims   [3]uint32
	words  [9]uint32 // for native code: dims, id and the dimensions of the grid
	count  int       // threads

	shared []byte // backed by uint64s, so it is aligned
	window translation
	params []byte
	warps  []warp
	bars   [barriers]barrier
}

// barrier is one of the block's barriers.
type barrier struct {
	arrived []uint32 // by warp: the lanes that have arrived
	need    int      // threads it waits for; 0: all of the block
	used    bool     // someone has arrived
	reduce  reduction
}

// reduction is the state of bar.red.
type reduction struct {
	count int
	and   bool
	or    bool
}

// barrierOp is a barrier instruction.
type barrierOp struct {
	id, count uint32 // 32-bit registers; count may be noReg
	arrive    bool
	reduce    boolOp // boolNone: none or popc
	popc      bool
	pred      uint32
	predNeg   bool
}

// newBlock makes the state for blocks of one launch and of others that fit.
func newBlock(wk *worker, r *run) *block {
	b := &block{prog: r.kernel.prog, kernel: r.kernel, dims: r.launch.Block}
	b.count = int(b.dims[0]) * int(b.dims[1]) * int(b.dims[2])
	b.shared = alignedBytes(r.sharedBytes())
	b.window = windowTo(b.shared)
	b.warps = make([]warp, (b.count+31)/32)
	for i := range b.bars {
		b.bars[i].arrived = make([]uint32, len(b.warps))
		b.bars[i].reset()
	}
	for i := range b.warps {
		w := &b.warps[i]
		w.block, w.worker, w.code, w.index = b, wk, b.prog.code, i
		n := min(32, b.count-32*i)
		w.exist = uint32(1<<n - 1)
		for l := range 32 {
			t := uint32(32*i + l)
			w.tid[0][l] = t % b.dims[0]
			w.tid[1][l] = t / b.dims[0] % b.dims[1]
			w.tid[2][l] = t / b.dims[0] / b.dims[1]
		}
	}
	b.reuse(r)
	return b
}

// fits reports whether b can run blocks of another launch of its kernel.
func (b *block) fits(r *run) bool {
	return b.dims == r.launch.Block && len(b.shared) == r.sharedBytes()
}

// reuse prepares b for a launch.
func (b *block) reuse(r *run) {
	b.launch, b.limits, b.params = r.launch, r.limits, r.params
	copy(b.words[wordNTid:], b.dims[:])
	copy(b.words[wordNCTAID:], r.launch.Grid[:])
	for i := range b.warps {
		w := &b.warps[i]
		if w.native = r.native; w.native != nil {
			if w.worker.sites == nil {
				w.worker.sites = make([]site, w.native.count)
			}
			w.frame0.prepare(w)
		}
	}
}

// rest drops what a launch does not leave to the next.
func (b *block) rest() {
	b.launch, b.params = nil, nil
	for i := range b.warps {
		b.warps[i].frame0 = nativeFrame{}
	}
}

// sharedBytes is the .shared memory of a block.
func (r *run) sharedBytes() int { return int(r.kernel.fn.dynShared) + int(r.launch.SharedBytes) }

// alignedBytes makes n zero bytes that start at a multiple of 8.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	return wordBytes(make([]uint64, (n+7)/8))[:n]
}

// run runs block id to its end.
func (b *block) run(id [3]uint32) {
	b.id = id
	copy(b.words[wordCTAID:], id[:])
	clear(b.shared)
	for i := range b.bars {
		if b.bars[i].used {
			b.bars[i].reset()
		}
	}
	for i := range b.warps {
		b.warps[i].start(b.kernel.fn)
	}
	for {
		progress, left := false, false
		for i := range b.warps {
			w := &b.warps[i]
			if w.live == 0 {
				continue
			}
			left = true
			if !w.runnable() {
				continue
			}
			progress = true
			w.run()
		}
		if !left {
			return
		}
		if !progress {
			b.deadlock()
		}
	}
}

// runnable reports whether a fragment is ready or can be forced on.
func (w *warp) runnable() bool {
	if w.mask != 0 {
		return true
	}
	for i := range w.rest {
		if w.rest[i].state != atBarrier {
			return true
		}
	}
	return false
}

func (r *barrier) reset() {
	clear(r.arrived)
	r.need, r.used = 0, false
	r.reduce = reduction{and: true}
}

// barrier runs a barrier instruction for the active lanes. Lanes of a warp that
// arrive at different times are counted as they come, as on Volta and later.
func (w *warp) barrier(in *inst) bool {
	op := in.x.barrier
	lane := w.first()
	id := w.uniform(op.id, "barriers")
	if id >= barriers {
		w.failLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d of %d", id, barriers))
	}
	bar := &w.block.bars[id]
	need := 0
	if op.count != noReg {
		need = int(w.uniform(op.count, "numbers of threads for one barrier"))
		if need == 0 || need%32 != 0 || need > (w.block.count+31)/32*32 {
			w.failLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads", id, need))
		}
	}
	if bar.used && bar.need != need {
		w.failLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads, while others wait at it for %d", id, need, bar.need))
	}
	if bar.arrived[w.index]&w.mask != 0 {
		w.failLane(lane, gpu.LostInstruction, fmt.Sprintf("a thread arrives at barrier %d twice", id))
	}
	bar.used, bar.need = true, need
	bar.arrived[w.index] |= w.mask
	if op.pred != noReg {
		p := w.pr[op.pred]
		if op.predNeg {
			p = ^p
		}
		p &= w.mask
		bar.reduce.count += bits.OnesCount32(p)
		bar.reduce.and = bar.reduce.and && p == w.mask
		bar.reduce.or = bar.reduce.or || p != 0
	}
	if !op.arrive {
		w.suspendAt(in, id)
	}
	w.block.settle(id)
	if w.mask != 0 {
		return true
	}
	return w.pick()
}

// uniform is the value of a register that must be the same for all active lanes.
func (w *warp) uniform(r uint32, what string) uint32 {
	x := &w.r32[r]
	first := w.first()
	if differing(x, x[first])&w.mask != 0 {
		w.failLane(first, gpu.LostInstruction, "lanes of a warp name different "+what)
	}
	return x[first]
}

// suspendAt makes the running fragment wait at barrier id.
func (w *warp) suspendAt(in *inst, id uint32) {
	w.rest = append(w.rest, fragment{mask: w.mask, pc: w.pc, frame: w.frame, state: atBarrier, wait: in, barrier: id})
	w.mask = 0
}

// exited looks at all barriers, because threads have exited.
func (b *block) exited() {
	for id := range b.bars {
		if b.bars[id].used {
			b.settle(uint32(id))
		}
	}
}

// settle releases barrier id if all that it waits for have arrived. A warp
// whose live lanes have all arrived counts as 32 threads.
func (b *block) settle(id uint32) {
	bar := &b.bars[id]
	n, all := 0, true
	for i := range b.warps {
		w := &b.warps[i]
		switch here := bar.arrived[i]; {
		case here&w.live != w.live:
			all = false
			n += bits.OnesCount32(here)
		case here != 0:
			n += 32
		}
	}
	if bar.need == 0 && !all || bar.need != 0 && n < bar.need {
		return
	}
	for i := range b.warps {
		b.warps[i].release(id, bar.reduce)
	}
	bar.reset()
}

// release lets the fragments at barrier id go on.
func (w *warp) release(id uint32, r reduction) {
	for i := range w.rest {
		f := &w.rest[i]
		if f.state != atBarrier || f.barrier != id {
			continue
		}
		f.state = ready
		w.deliver(f, r)
		if w.mask != 0 && f.frame.depth == w.frame.depth && f.pc < w.limit {
			w.limit = f.pc
		}
	}
}

// deliver writes the result of a bar.red.
func (w *warp) deliver(f *fragment, r reduction) {
	op := f.wait.x.barrier
	switch {
	case op.popc:
		d := &w.store32[f.frame.base32+int(f.wait.d)]
		fill(d, uint32(r.count), f.mask, allLanes)
	case op.reduce != boolNone:
		on := r.or
		if op.reduce == boolAnd {
			on = r.and
		}
		p := &w.storePr[f.frame.basePr+int(f.wait.d)]
		*p &^= f.mask
		if on {
			*p |= f.mask
		}
	}
}

// deadlock ends the kernel because every thread waits at a barrier that cannot
// complete.
func (b *block) deadlock() {
	var at []string
	for i := range b.bars {
		bar := &b.bars[i]
		n := 0
		for _, m := range bar.arrived {
			n += bits.OnesCount32(m)
		}
		if bar.used {
			at = append(at, fmt.Sprintf("%d threads at barrier %d", n, i))
		}
	}
	for i := range b.warps {
		if w := &b.warps[i]; w.live != 0 {
			w.failLane(firstOf(w.live), gpu.LostInstruction, "barriers that never complete: "+strings.Join(at, ", "))
		}
	}
}
