package run

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// run is one launch.
type run struct {
	kernel  *Kernel
	launch  Launch // a copy, with Limits set
	params  []byte // copy, padded to the kernel's parameter block
	space   tlb.Space
	blocks  uint64
	cluster [3]uint32 // blocks of a cluster
	size    uint64    // all of them
	id      uint64    // number of the launch, for %gridid
	workers int
	native  *jit.Code
	failed  atomic.Bool // some worker met a fault
	awaits  atomic.Bool // some thread waits for what the kernel has launched

	grid *grid // of a cooperative launch, else nil

	taken atomic.Uint64 // clusters of the state that the launch goes on from
	kept  []blockState  // what a preemption leaves; guarded by Control.mu

	next counter // the next cluster to take
}

// worker runs clusters, one at a time, the warps of all its blocks in turn. It has tens to hundreds of kilobytes, most of
// them registers, and is kept with its kernel from launch to launch: made each time, 16
// of them had the garbage collector stop all of them every other launch.
type worker struct {
	ir.Worker
	run     *run
	control *Control
	seen    uint64     // Control.word when last looked at
	acked   uint64     // Control.word up to which no translation is left; guarded by Control.mu
	sites   *jit.Sites // pages that native code uses; dropped with tlb
	blocks  []*block   // of a cluster, by rank; empty before the first
	rested  bool       // it has ended between two clusters, and can be used again
	naps    int        // short sleeps in a row
	part    part       // of the clusters of the launch
	counts  *counts    // what the launch counts; nil: nothing

	met        bool // threads may have arrived at the barrier of the cluster
	stuck      bool // nothing of its cluster can run, but lanes that go on without those they wait for
	preempting bool // it begins no cluster, and stops the one that runs
	awaiting   bool // threads of its cluster wait for what the kernel has launched
}

// Run runs a kernel to its end on the given number of workers (at least one).
// Errors are gpu.ErrInvalid, wrapped, for a launch that is not possible, and
// *gpu.LostError for a fault or after Control.Stop; memory that the kernel has
// written by then keeps what was written.
func Run(k *Kernel, l Launch, s tlb.Space, c *Control, workers int) error {
	r := &run{kernel: k, launch: l, space: s}
	if l.Limits == (Limits{}) {
		r.launch.Limits = DefaultLimits()
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("launch of %s: %w", k.attrs.Name, err)
	}
	r.native = k.native.For(l.Block).Prepare(k.prog, k.fn, l.Native)
	if r.native != nil {
		r.native.Reach(r.nativeOf)
	}
	r.params = make([]byte, max(k.fn.ParamBytes, len(l.Params)))
	copy(r.params, l.Params)
	r.blocks = uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])

	workers = max(min(workers, maxRunBytes/max(r.clusterBytes(), 1)), 1)
	if err := r.cooperate(workers); err != nil {
		return fmt.Errorf("launch of %s: %w", k.attrs.Name, err)
	}
	n := int(min(uint64(workers), r.blocks/r.size))
	r.id, r.workers = launches.Add(1), n
	if s := l.From; s != nil {
		if err := r.accept(s); err != nil {
			return fmt.Errorf("launch of %s: %w", k.attrs.Name, err)
		}
		r.id = s.launch
		r.next.Store(s.next / r.size)
		if r.grid != nil {
			r.grid.words[0] = s.workspace
		}
	}
	if err := r.workOn(c, n); err != nil {
		return err
	}
	if s := r.rest(); s != nil {
		return &Preempted{State: s}
	}
	return nil
}

// workOn has n workers run the launch, and returns the error of the first that has one.
func (r *run) workOn(c *Control, n int) error {
	if n == 1 { // allocates nothing: most launches that are short have one
		return r.member(c, 0)
	}
	errs := make([]error, n)
	r.launch.Workers.Share(n, func(member int) { errs[member] = r.member(c, member) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// member is one worker's part.
func (r *run) member(c *Control, id int) error {
	w := r.worker(c, id)
	err := w.work()
	r.launch.Tally.add(r, id, w.counts)
	w.rest()
	return err
}

// check validates the launch.
func (r *run) check() error {
	l, lim, fn := &r.launch, &r.launch.Limits, r.kernel.fn
	switch {
	case !r.kernel.prog.Data.Linked && r.kernel.prog.Data.Size > 0:
		return fmt.Errorf("%w: module %s is not linked", gpu.ErrInvalid, r.kernel.prog.File)
	case len(l.Params) < r.kernel.attrs.ParamBytes:
		return fmt.Errorf("%w: %d bytes of parameters, the kernel takes %d", gpu.ErrInvalid, len(l.Params), r.kernel.attrs.ParamBytes)
	}
	if err := lim.check(fn, l.Grid, l.Block, l.SharedBytes); err != nil {
		return err
	}
	return r.checkCluster()
}

// check validates the shape of a launch, but for its clusters.
func (lim *Limits) check(fn *ir.Function, grid, block [3]uint32, dynamic uint32) error {
	threads := uint64(1)
	for i := range 3 {
		switch {
		case grid[i] == 0 || block[i] == 0:
			return fmt.Errorf("%w: grid %v, block %v: no dimension may be 0", gpu.ErrInvalid, grid, block)
		case grid[i] > lim.MaxGrid[i]:
			return fmt.Errorf("%w: grid %v exceeds %v", gpu.ErrInvalid, grid, lim.MaxGrid)
		case block[i] > lim.MaxBlock[i]:
			return fmt.Errorf("%w: block %v exceeds %v", gpu.ErrInvalid, block, lim.MaxBlock)
		}
		threads *= uint64(block[i])
	}
	most := uint64(lim.MaxThreads)
	if fn.MaxThreads != 0 {
		most = min(most, uint64(fn.MaxThreads))
	}
	shared := uint64(fn.DynShared) + uint64(dynamic)
	switch {
	case threads > most:
		return fmt.Errorf("%w: block %v has %d threads, at most %d are possible", gpu.ErrInvalid, block, threads, most)
	case fn.ReqBlock != [3]uint32{} && block != fn.ReqBlock:
		return fmt.Errorf("%w: block %v, but the kernel requires %v", gpu.ErrInvalid, block, fn.ReqBlock)
	case shared > uint64(lim.SharedBytes):
		return fmt.Errorf("%w: %d bytes of shared memory, at most %d are possible", gpu.ErrInvalid, shared, lim.SharedBytes)
	case fn.FrameBytes > lim.StackBytes:
		return fmt.Errorf("%w: %d bytes of local memory and registers for each thread, at most %d are possible", gpu.ErrInvalid, fn.FrameBytes, lim.StackBytes)
	}
	return nil
}

// worker takes a worker that an earlier launch of the kernel left, or makes one.
func (r *run) worker(c *Control, id int) *worker {
	w, _ := r.kernel.rested.Get().(*worker)
	if w == nil || len(w.blocks) != 0 && !(uint64(len(w.blocks)) == r.size && w.blocks[0].fits(r)) {
		w = new(worker)
	}
	w.run, w.control, w.ID, w.Cycles, w.rested = r, c, id, 0, false
	w.preempting, w.awaiting, w.naps, w.part = false, false, 0, part{}
	w.counts = r.launch.Tally.counts()
	w.Workers, w.Launch, w.Model, w.Print, w.Heap = r.workers, r.id, r.launch.Model, r.launch.Print, r.launch.Heap
	if w.Launcher = nil; r.launch.Tree != nil {
		w.Launcher = launcher{Tree: r.launch.Tree, limits: &r.launch.Limits}
	}
	w.TLB.Open(r.space, r.kernel.attrs.Name)
	w.sites.Drop()
	for _, b := range w.blocks {
		b.reuse(r)
	}
	return w
}

// maxRestBytes bounds what a worker that rests may keep. A block of 1024 threads of an event loop, which is launched
// again and again, has 1.3 MB.
const maxRestBytes = 2 << 20

// rest leaves a worker to later launches, unless it ended in the middle of a cluster or is large.
func (w *worker) rest() {
	if !w.rested || w.bytes() > maxRestBytes {
		return
	}
	kernel := w.run.kernel
	w.run, w.control, w.Model, w.Print, w.Heap, w.Launcher, w.counts = nil, nil, nil, nil, nil, nil, nil // what they refer to is not to be kept
	w.TLB.Close()
	for _, b := range w.blocks {
		b.rest()
	}
	kernel.rested.Put(w)
}

// aborted is what poll panics with when another worker has met a fault.
type aborted struct{}

// work runs clusters until none is left, the launch failed or is stopped.
func (w *worker) work() (err error) {
	w.control.join(w)
	defer w.control.leave(w)
	defer func() {
		if e := recover(); e != nil {
			err = w.recovered(e)
			// Wake the other workers, which may run for ever.
			w.run.failed.Store(true)
			w.control.notify()
		}
	}()
	// Host memory may vanish under the kernel (a guest that shrinks its file);
	// the fault becomes a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if from := w.run.launch.From; from != nil {
		size := w.run.size
		for i := w.run.taken.Add(1) * size; i <= uint64(len(from.blocks)) && !w.run.failed.Load(); i = w.run.taken.Add(1) * size {
			w.runCluster(0, from.blocks[i-size:i])
		}
	}
	for ran := false; !w.preempting; ran = true {
		if ran && w.control.between() {
			break
		}
		n, ok := w.take()
		if !ok || w.run.failed.Load() {
			break
		}
		w.runCluster(n, nil)
	}
	w.leave()
	w.rested = true
	return nil
}

// recovered turns a panic into the error of this worker. What is not a fault of
// the kernel is one of the engine or of the host's memory: the context is lost,
// the process lives.
func (w *worker) recovered(e any) error {
	switch e := e.(type) {
	case *gpu.LostError:
		return e
	case aborted:
		return nil
	case interface{ Addr() uintptr }:
		return &gpu.LostError{Cause: gpu.LostDevice, Kernel: w.run.kernel.attrs.Name, Detail: fmt.Sprintf("system memory is gone: %v", e)}
	}
	return &gpu.LostError{Cause: gpu.LostDevice, Kernel: w.run.kernel.attrs.Name, Detail: fmt.Sprintf("engine fault: %v", e)}
}

// poll answers the Control: it ends the kernel, or notes that it is to stop, and drops all
// translations. It
// is called between two instructions, when no translation is in use.
func (w *worker) poll() {
	seen := w.control.word.Load()
	if cause := w.control.Stopped(); cause != gpu.LostNone {
		panic(&gpu.LostError{Cause: cause, Kernel: w.run.kernel.attrs.Name})
	}
	if w.run.failed.Load() {
		panic(aborted{})
	}
	if w.control.preempt.Load() && !w.control.Whole {
		w.preempting = true
	}
	w.TLB.Flush()
	w.sites.Drop()
	w.seen = seen
	w.control.ack(w, seen)
}

// launches counts runs, for %gridid.
var launches atomic.Uint64
