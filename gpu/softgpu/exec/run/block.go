package run

import (
	"fmt"
	"math/bits"
	"strings"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// barriers is how many a block has (section 9.7.12.1 of the PTX manual).
const barriers = 16

// block is a block that runs on a worker, reused for one after the other.
type block struct {
	ir.Block
	kernel *Kernel
	limits Limits
	count  int // threads
	left   int // warps with threads that have not exited
	warps  []warp
	ring   []*warp // those that run in a ring, in their order
	bars   [barriers]barrier
	crew   jit.Crew // of those that run in one
	waited bool     // some barrier was used since the block began
	begun  bool     // a warp has run
	next   int      // the warp that has its turn next, because it left a crew
	again  bool     // the last block ended so that its warps are as start makes them, see again.go
	met    bool     // in this turn a barrier was complete, and the next turn is for a ring
}

// barrier is one of the block's barriers.
type barrier struct {
	arrived []uint32 // by warp: the lanes that have arrived
	need    int      // threads it waits for; 0: all of the block
	used    bool     // someone has arrived
	missing int      // a warp of which lanes were missing when last looked at
	reduce  reduction
}

// reduction is the state of bar.red.
type reduction struct {
	count int
	and   bool
	or    bool
}

// newBlock makes the state for blocks of a rank, of one launch and of others that fit.
func newBlock(wk *worker, r *run, rank uint32) *block {
	b := &block{kernel: r.kernel}
	b.Place.Rank = rank
	b.Prog, b.Fn, b.Dims = r.kernel.prog, r.kernel.fn, r.launch.Block
	b.count = int(b.Dims[0]) * int(b.Dims[1]) * int(b.Dims[2])
	b.Shared = alignedBytes(r.sharedBytes())
	b.Window = tlb.WindowTo(b.Shared)
	b.warps = make([]warp, (b.count+31)/32)
	b.WarpCount = len(b.warps)
	for i := range b.bars {
		b.bars[i].arrived = make([]uint32, len(b.warps))
		b.bars[i].reset()
	}
	for i := range b.warps {
		w := &b.warps[i]
		w.block, w.worker, w.code, w.Index = b, wk, b.Prog.Code, i
		w.Warp.Block, w.Warp.Worker = &b.Block, &wk.Worker
		b.Warps = append(b.Warps, &w.Warp)
		n := min(32, b.count-32*i)
		w.exist = uint32(1<<n - 1)
		for l := range 32 {
			t := uint32(32*i + l)
			w.Tid[0][l] = t % b.Dims[0]
			w.Tid[1][l] = t / b.Dims[0] % b.Dims[1]
			w.Tid[2][l] = t / b.Dims[0] / b.Dims[1]
		}
	}
	b.reuse(r)
	return b
}

// fits reports whether b can run blocks of another launch of its kernel.
func (b *block) fits(r *run) bool {
	return b.Dims == r.launch.Block && len(b.Shared) == r.sharedBytes()
}

// reuse prepares b for a launch.
func (b *block) reuse(r *run) {
	b.Workspace = r.workspace()
	b.Place.Dims, b.Place.Explicit = r.cluster, r.explicit()
	b.again = false
	b.limits, b.Params, b.Grid, b.Dynamic, b.StackBytes = r.launch.Limits, r.params, r.launch.Grid, r.launch.SharedBytes, r.launch.Limits.StackBytes
	copy(b.Words[ir.WordNTid:], b.Dims[:])
	copy(b.Words[ir.WordNCTAID:], r.launch.Grid[:])
	for i := range b.warps {
		w := &b.warps[i]
		if w.native = r.native; w.native != nil {
			if w.worker.sites == nil {
				w.worker.sites = w.native.NewSites(len(r.kernel.called) != 0)
			}
			w.frame0.Prepare(&w.Warp, w.worker.sites, &w.worker.control.word)
			if w.native.Calls() {
				if w.calls == nil {
					w.calls = new(jit.Calls)
				}
				w.frame0.MayCall(w.native, w.calls)
			}
			if c := w.worker.counts; c != nil {
				w.frame0.Note(func(pc int32) { c.count(jit.Operation, pc) })
			}
		}
	}
}

// rest drops what a launch does not leave to the next.
func (b *block) rest() {
	b.Params = nil
	for i := range b.warps {
		b.warps[i].frame0 = jit.Frame{}
	}
}

// sharedUnit is what blocks get .shared memory in, as an H100's do. Compilers count on it: they read two
// or four words where the last ones lie behind what the kernel asked for.
const sharedUnit = 128

// sharedBytes is the .shared memory of a block.
func (r *run) sharedBytes() int {
	n := int(r.kernel.fn.DynShared) + int(r.launch.SharedBytes)
	return (n + sharedUnit - 1) / sharedUnit * sharedUnit
}

// alignedBytes makes n zero bytes that start at a multiple of 8.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	return tlb.WordBytes(make([]uint64, (n+7)/8))[:n]
}

// begin prepares the block to run as block id.
func (b *block) begin(id [3]uint32) {
	b.ID, b.Ended, b.left, b.begun = id, false, len(b.warps), false
	copy(b.Words[ir.WordCTAID:], id[:])
	clear(b.Shared)
	if b.again {
		b.beginAgain()
		return
	}
	if b.waited {
		for i := range b.bars {
			if b.bars[i].used {
				b.bars[i].reset()
			}
		}
		b.waited = false
	}
	for i := range b.warps {
		b.warps[i].start(b.kernel.fn)
	}
}

// progress is what a turn of all warps comes to.
type progress struct {
	made, left, sleeping, spent bool // something ran; threads have not exited, when it ends; some sleep; a quantum was used up
}

// turn lets each warp of the block run. It reports false when the worker is to be preempted.
func (b *block) turn(all *progress) bool {
	if !b.begun && b.inChain() || b.inRing() || b.inCrew() {
		all.made = true
	}
	if b.Ended {
		return true
	}
	b.begun = true
	b.met = false
	first := b.next
	b.next = 0
	for i := first; i < len(b.warps); i++ {
		w := &b.warps[i]
		if w.Live == 0 || !w.runnable() {
			continue
		}
		switch w.run() {
		case asleep:
			all.sleeping = true
		case yielded:
			w.worker.naps = 0
			all.made, all.spent = true, true
		default:
			all.made = true
		}
		if w.worker.preempting {
			return false
		}
		if b.met {
			return true
		}
	}
	return true
}

// runnable reports whether a fragment is ready or can be forced on.
func (w *warp) runnable() bool {
	if w.Mask != 0 {
		return true
	}
	for i := range w.Rest {
		switch w.Rest[i].State {
		case ir.AtBarrier:
		case ir.AtSync:
			if !w.expects() {
				return true
			}
		default:
			return true
		}
	}
	return false
}

func (r *barrier) reset() {
	clear(r.arrived)
	r.need, r.used, r.missing = 0, false, 0
	r.reduce = reduction{and: true}
}

// barrier runs a barrier instruction for the active lanes. Lanes of a warp that
// arrive at different times are counted as they come, as on Volta and later.
func (w *warp) barrier(in *ir.Inst) bool {
	op := in.X.Barrier
	if op.Cluster {
		return w.clusterBarrier(in)
	}
	lane := w.First()
	id := op.Number
	if id == ir.NoReg {
		id = w.uniform(op.ID, "barriers")
	}
	if id >= barriers {
		w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d of %d", id, barriers))
	}
	bar := &w.block.bars[id]
	need := 0
	if op.Count != ir.NoReg {
		need = int(w.uniform(op.Count, "numbers of threads for one barrier"))
		if need == 0 || need%32 != 0 || need > (w.block.count+31)/32*32 {
			w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads", id, need))
		}
	}
	if bar.used && bar.need != need {
		w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads, while others wait at it for %d", id, need, bar.need))
	}
	if bar.arrived[w.Index]&w.Mask != 0 {
		w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("a thread arrives at barrier %d twice", id))
	}
	w.arrive(bar, op, need)
	if !op.Arrive {
		w.suspendAt(in, id)
	}
	w.block.settle(id)
	if w.Mask != 0 {
		return true
	}
	if !bar.used && w.native != nil && w.native.Rings(w.block.count) && w.Live == ir.AllLanes {
		w.block.met = true // no warp goes ahead of others, so that they may run in a ring
		return false
	}
	if !bar.used && len(w.block.warps) == 1 && w.native != nil && w.native.Crews(1) {
		w.block.met = true // the only warp is a crew
		return false
	}
	return w.pick()
}

// arrive counts the active lanes at a barrier.
func (w *warp) arrive(bar *barrier, op *ir.BarrierOp, need int) {
	bar.used, bar.need, w.block.waited = true, need, true
	bar.arrived[w.Index] |= w.Mask
	if op.Pred != ir.NoReg {
		p := w.Pr[op.Pred]
		if op.PredNeg {
			p = ^p
		}
		p &= w.Mask
		bar.reduce.count += bits.OnesCount32(p)
		bar.reduce.and = bar.reduce.and && p == w.Mask
		bar.reduce.or = bar.reduce.or || p != 0
	}
}

// arriveHeld puts down lanes that native code has held at the barrier at a position.
func (w *warp) arriveHeld(held uint32, pc int32) {
	if held == 0 {
		return
	}
	in, mask, next, at := &w.code[pc], w.Mask, w.PC, w.Frame
	w.Mask, w.PC = held, pc+1
	w.view(&w.root) // the others may have called a function
	w.arrive(&w.block.bars[in.X.Barrier.Number], in.X.Barrier, 0)
	w.suspendAt(in, in.X.Barrier.Number)
	w.Mask, w.PC = mask, next
	w.view(at)
}

// uniform is the value of a register that must be the same for all active lanes.
func (w *warp) uniform(r uint32, what string) uint32 {
	x := &w.R32[r]
	first := w.First()
	if lane.Differing(x, x[first])&w.Mask != 0 {
		w.FailLane(first, gpu.LostInstruction, "lanes of a warp name different "+what)
	}
	return x[first]
}

// suspendAt makes the running fragment wait at barrier id.
func (w *warp) suspendAt(in *ir.Inst, id uint32) {
	w.Rest = append(w.Rest, ir.Fragment{Mask: w.Mask, PC: w.PC, Frame: w.Frame, State: ir.AtBarrier, Wait: in, Barrier: id})
	w.Mask = 0
}

// exited looks at all barriers, because threads have exited.
func (b *block) exited() {
	if b.waited {
		for id := range b.bars {
			if b.bars[id].used {
				b.settle(uint32(id))
			}
		}
	}
	b.Ended = b.left == 0
	if w := b.warps[0].worker; w.met {
		w.settle()
	}
}

// settle releases barrier id if all that it waits for have arrived. A warp
// whose live lanes have all arrived counts as 32 threads.
func (b *block) settle(id uint32) {
	bar := &b.bars[id]
	if bar.need == 0 && b.misses(bar) || bar.need != 0 && b.counted(bar) < bar.need {
		return
	}
	for i := range b.warps {
		b.warps[i].release(id, &bar.reduce)
	}
	bar.reset()
}

// misses reports whether lanes of some warp have not arrived. Warps arrive one after the
// other, so the one that was missing last is looked at first.
func (b *block) misses(bar *barrier) bool {
	n := len(b.warps)
	for i := range n {
		at := bar.missing + i
		if at >= n {
			at -= n
		}
		if live := b.warps[at].Live; bar.arrived[at]&live != live {
			bar.missing = at
			return true
		}
	}
	return false
}

// counted is how many threads have arrived.
func (b *block) counted(bar *barrier) (n int) {
	for i := range b.warps {
		w := &b.warps[i]
		switch here := bar.arrived[i]; {
		case here&w.Live != w.Live:
			n += bits.OnesCount32(here)
		case here != 0:
			n += 32
		}
	}
	return n
}

// release lets the fragments at barrier id go on.
func (w *warp) release(id uint32, r *reduction) {
	for i := range w.Rest {
		f := &w.Rest[i]
		if f.State != ir.AtBarrier || f.Barrier != id {
			continue
		}
		f.State = ir.Ready
		if f.Wait.D != ir.NoReg {
			w.deliver(f, r)
		}
		if w.Mask != 0 && f.Frame.Depth == w.Frame.Depth && f.PC < w.limit {
			w.limit = f.PC
		}
	}
}

// deliver writes the result of a bar.red.
func (w *warp) deliver(f *ir.Fragment, r *reduction) {
	op := f.Wait.X.Barrier
	switch {
	case op.Popc:
		d := &w.Store32[f.Frame.Base32+int(f.Wait.D)]
		lane.Fill(d, uint32(r.count), f.Mask, ir.AllLanes)
	case op.Reduce != ir.BoolNone:
		on := r.or
		if op.Reduce == ir.BoolAnd {
			on = r.and
		}
		p := &w.StorePr[f.Frame.BasePr+int(f.Wait.D)]
		*p &^= f.Mask
		if on {
			*p |= f.Mask
		}
	}
}

// deadlock ends the kernel because every thread of the cluster waits at a barrier that cannot
// complete.
func (w *worker) deadlock() {
	var at []string
	for _, b := range w.blocks {
		at = append(at, b.waiting()...)
	}
	if here := w.arrivedAtCluster(); here != "" {
		at = append(at, here)
	}
	for _, b := range w.blocks {
		for i := range b.warps {
			if w := &b.warps[i]; w.Live != 0 {
				w.FailLane(ir.FirstOf(w.Live), gpu.LostInstruction, "barriers that never complete: "+strings.Join(at, ", "))
			}
		}
	}
}

// waiting says how many threads wait at which barriers.
func (b *block) waiting() (at []string) {
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
	return at
}
