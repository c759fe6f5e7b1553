package simt

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"pvdrm/gpu"
)

// run is one launch.
type run struct {
	kernel  *Kernel
	launch  *Launch
	limits  Limits
	params  []byte // copy, padded to the kernel's parameter block
	space   Space
	blocks  uint64
	id      uint64 // number of the launch, for %gridid
	workers int
	native  *native
	next    atomic.Uint64 // the next block to start
	failed  atomic.Bool   // some worker met a fault
}

// worker runs blocks, one at a time. It has tens to hundreds of kilobytes, most of
// them registers, and is kept with its kernel from launch to launch: made anew, 16
// of them had the garbage collector stop all of them every other launch.
type worker struct {
	run     *run
	control *Control
	seen    uint64 // Control.word when last looked at
	id      int
	tlb     tlb
	sites   []site // pages that native code uses; dropped with tlb
	cycles  uint64 // of the running block; see Model
	fence   uint32 // written by memory fences, for its effect on the order of accesses
	block   *block // nil before the first
	rested  bool   // it has ended between two blocks, and can be used again
}

// Run runs a kernel to its end on the given number of workers (at least one).
// Errors are gpu.ErrInvalid, wrapped, for a launch that is not possible, and
// *gpu.LostError for a fault or after Control.Stop; memory that the kernel has
// written by then keeps what was written.
func Run(k *Kernel, l Launch, s Space, c *Control, workers int) error {
	r := &run{kernel: k, launch: &l, limits: l.Limits, space: s}
	if r.limits == (Limits{}) {
		r.limits = DefaultLimits()
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("launch of %s: %w", k.attrs.Name, err)
	}
	r.native = k.nativeFor(l.Native)
	r.params = make([]byte, max(k.fn.paramBytes, len(l.Params)))
	copy(r.params, l.Params)
	r.blocks = uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])

	n := int(min(uint64(max(workers, 1)), r.blocks))
	r.id, r.workers = launches.Add(1), n
	errs := make([]error, n)
	l.Crew.Share(n, func(member int) {
		w := r.worker(c, member)
		errs[member] = w.work()
		w.rest()
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// check validates the launch.
func (r *run) check() error {
	l, lim, fn := r.launch, &r.limits, r.kernel.fn
	threads := uint64(1)
	for i := range 3 {
		switch {
		case l.Grid[i] == 0 || l.Block[i] == 0:
			return fmt.Errorf("%w: grid %v, block %v: no dimension may be 0", gpu.ErrInvalid, l.Grid, l.Block)
		case l.Grid[i] > lim.MaxGrid[i]:
			return fmt.Errorf("%w: grid %v exceeds %v", gpu.ErrInvalid, l.Grid, lim.MaxGrid)
		case l.Block[i] > lim.MaxBlock[i]:
			return fmt.Errorf("%w: block %v exceeds %v", gpu.ErrInvalid, l.Block, lim.MaxBlock)
		}
		threads *= uint64(l.Block[i])
	}
	most := uint64(lim.MaxThreads)
	if fn.maxThreads != 0 {
		most = min(most, uint64(fn.maxThreads))
	}
	shared := uint64(fn.dynShared) + uint64(l.SharedBytes)
	switch {
	case !r.kernel.prog.data.linked && r.kernel.prog.data.size > 0:
		return fmt.Errorf("%w: module %s is not linked", gpu.ErrInvalid, r.kernel.prog.file)
	case threads > most:
		return fmt.Errorf("%w: block %v has %d threads, at most %d are possible", gpu.ErrInvalid, l.Block, threads, most)
	case fn.reqBlock != [3]uint32{} && l.Block != fn.reqBlock:
		return fmt.Errorf("%w: block %v, but the kernel requires %v", gpu.ErrInvalid, l.Block, fn.reqBlock)
	case shared > uint64(lim.SharedBytes):
		return fmt.Errorf("%w: %d bytes of shared memory, at most %d are possible", gpu.ErrInvalid, shared, lim.SharedBytes)
	case len(l.Params) < r.kernel.attrs.ParamBytes:
		return fmt.Errorf("%w: %d bytes of parameters, the kernel takes %d", gpu.ErrInvalid, len(l.Params), r.kernel.attrs.ParamBytes)
	case fn.frameBytes > lim.StackBytes:
		return fmt.Errorf("%w: %d bytes of local memory and registers for each thread, at most %d are possible", gpu.ErrInvalid, fn.frameBytes, lim.StackBytes)
	}
	return nil
}

// worker takes a worker that an earlier launch of the kernel left, or makes one.
func (r *run) worker(c *Control, id int) *worker {
	w, _ := r.kernel.rested.Get().(*worker)
	if w == nil || w.block != nil && !w.block.fits(r) {
		w = new(worker)
	}
	w.run, w.control, w.id, w.cycles, w.rested = r, c, id, 0, false
	w.tlb.flush()
	clear(w.sites)
	if w.block != nil {
		w.block.reuse(r)
	}
	return w
}

// rest leaves a worker to later launches, unless it ended in the middle of a block.
func (w *worker) rest() {
	if !w.rested {
		return
	}
	kernel := w.run.kernel
	w.run, w.control = nil, nil // what they refer to is not to be kept
	if w.block != nil {
		w.block.rest()
	}
	kernel.rested.Put(w)
}

// aborted is what poll panics with when another worker has met a fault.
type aborted struct{}

// work runs blocks until none is left, the launch failed or is stopped.
func (w *worker) work() (err error) {
	w.control.join(w)
	defer w.control.leave(w)
	defer func() {
		if e := recover(); e != nil {
			err = w.recovered(e)
			// Wake the other workers, which may run for ever.
			w.run.failed.Store(true)
			w.control.word.Add(1)
		}
	}()
	// Host memory may vanish under the kernel (a guest that shrinks its file);
	// the fault becomes a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	grid := w.run.launch.Grid
	for {
		n := w.run.next.Add(1) - 1
		if n >= w.run.blocks || w.run.failed.Load() {
			w.rested = true
			return nil
		}
		if w.control.word.Load() != w.seen {
			w.poll()
		}
		if w.block == nil {
			w.block = newBlock(w, w.run)
		}
		row := n / uint64(grid[0])
		w.block.run([3]uint32{uint32(n % uint64(grid[0])), uint32(row % uint64(grid[1])), uint32(row / uint64(grid[1]))})
		w.account(n)
	}
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
	}
	return &gpu.LostError{Cause: gpu.LostDevice, Kernel: w.run.kernel.attrs.Name, Detail: fmt.Sprintf("engine fault: %v", e)}
}

// poll answers the Control: it ends the kernel or drops all translations. It
// is called between two instructions, when no translation is in use.
func (w *worker) poll() {
	seen := w.control.word.Load()
	if cause := w.control.Stopped(); cause != gpu.LostNone {
		panic(&gpu.LostError{Cause: cause, Kernel: w.run.kernel.attrs.Name})
	}
	if w.run.failed.Load() {
		panic(aborted{})
	}
	w.tlb.flush()
	clear(w.sites)
	w.seen = seen
	w.control.ack(w, seen)
}

// fail ends the kernel; the lowest active lane is named.
func (w *warp) fail(cause gpu.LostCause, detail string) { w.failLane(w.first(), cause, detail) }

// failLane ends the kernel with a fault of one lane.
func (w *warp) failLane(lane int, cause gpu.LostCause, detail string) {
	panic(w.lost(lane, cause, detail))
}

// failAddress ends the kernel with a bad access of one lane.
func (w *warp) failAddress(lane int, cause gpu.LostCause, addr uint64, write bool, detail string) {
	e := w.lost(lane, cause, detail)
	e.Addr, e.Write = addr, write
	panic(e)
}

func (w *warp) lost(lane int, cause gpu.LostCause, detail string) *gpu.LostError {
	e := &gpu.LostError{Cause: cause, Kernel: w.block.kernel.attrs.Name, Block: w.block.id, Detail: detail}
	for i := range e.Thread {
		e.Thread[i] = w.tid[i][lane]
	}
	if at := w.block.prog.position(w.pc); at != "" {
		if e.Detail != "" {
			e.Detail += ", "
		}
		e.Detail += "at " + at
	}
	return e
}

// launches counts runs, for %gridid.
var launches atomic.Uint64
