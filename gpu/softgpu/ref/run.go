package ref

import (
	"fmt"
	"slices"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

const (
	// slice is how many statements a thread runs before the next has its turn.
	slice = 32
	// patience is how many turns an instruction without .sync waits for other
	// lanes of its warp.
	patience = 64
	// maxRegisters bounds the registers of all frames of a block.
	maxRegisters = 1 << 24
	warpSize     = 32
)

// state is what a thread does.
type state uint8

const (
	running   state = iota
	atBarrier       // it has arrived at a barrier and waits for others
	atCluster       // it waits at the barrier of the cluster
	atWarp          // it is about to run t.wait together with other lanes
	exited
)

// thread is one lane.
//
//	         bar.sync             all have arrived
//	running ─────────► atBarrier ──────────────────► running
//	running ─────────► atWarp ─────────────────────► running
//	         shfl, vote, …        the group is here, and has run it
//	running ─────────► exited
type thread struct {
	b      *block
	n      int // in the block
	tid    [3]uint32
	frames []*frame
	*frame        // the last of frames
	local  []byte // of all frames
	state  state
	wait   *ptx.Instr // where it waits
	since  uint64     // turn in which it began to wait
	bar    int        // barrier at which it waits
	came   bool       // it has arrived at the barrier of the cluster and not waited yet: in this phase,
	gone   bool       // or in one that has ended
}

// frame is one activation of a function.
type frame struct {
	fn    *function
	regs  []uint64         // bits, by Operand.Reg; a predicate is 0 or 1
	upper map[int32]uint64 // of registers of 128 bits: the upper halves, nil until one is written
	pc    int              // next statement of the body
	base  uint64           // of its part of the thread's local memory
	carry bool
	site  *ptx.Instr // the call that made it; nil for a kernel
}

// block is a block that runs.
type block struct {
	k        *Kernel
	launch   *exec.Launch
	limits   exec.Limits
	id       [3]uint32
	space    exec.Space
	cluster  *cluster
	rank     uint64  // in the cluster
	budget   *uint64 // statements left
	shared   []byte
	threads  []*thread
	bars     [barriers]barrier
	groups   []uint64 // wgmma.commit_group, by warp
	turn     uint64
	live     int // threads that have not exited
	regCount int // registers of all frames
}

// Run runs a kernel to its end, block after block. Budget bounds the statements
// that all threads run together. Errors are as of exec.Run: gpu.ErrInvalid for
// an impossible launch, *gpu.LostError for a fault, with cause gpu.LostTimeout
// when the budget is used up. Launch.Model and Launch.Workers are not used.
func Run(k *Kernel, l exec.Launch, s exec.Space, budget uint64) (err error) {
	lim := l.Limits
	if lim == (exec.Limits{}) {
		lim = exec.DefaultLimits()
	}
	if err := k.check(&l, &lim); err != nil {
		return fmt.Errorf("launch of %s: %w", k.fn.f.Name, err)
	}
	defer func() {
		if e := recover(); e != nil {
			lost, ok := e.(*gpu.LostError)
			if !ok {
				panic(e)
			}
			err = lost
		}
	}()
	if l.Cooperative {
		s = newGrid(s)
	}
	dims, err := k.clusters(&l, &lim)
	if err != nil {
		return fmt.Errorf("launch of %s: %w", k.fn.f.Name, err)
	}
	together := []*cluster{}
	for z := uint32(0); z < l.Grid[2]; z += dims[2] {
		for y := uint32(0); y < l.Grid[1]; y += dims[1] {
			for x := uint32(0); x < l.Grid[0]; x += dims[0] {
				c := newCluster(dims, [3]uint32{x, y, z}, block{k: k, launch: &l, limits: lim, space: s, budget: &budget})
				if l.Cooperative {
					together = append(together, c)
					continue
				}
				for c.round() {
				}
			}
		}
	}
	for len(together) > 0 {
		together = slices.DeleteFunc(together, func(c *cluster) bool { return !c.round() })
	}
	return nil
}

// check validates a launch.
func (k *Kernel) check(l *exec.Launch, lim *exec.Limits) error {
	threads := uint64(1)
	for d := range 3 {
		if l.Grid[d] == 0 || l.Block[d] == 0 || l.Grid[d] > lim.MaxGrid[d] || l.Block[d] > lim.MaxBlock[d] {
			return fmt.Errorf("%w: grid %v, block %v; at least 1 and at most %v and %v are possible", gpu.ErrInvalid, l.Grid, l.Block, lim.MaxGrid, lim.MaxBlock)
		}
		threads *= uint64(l.Block[d])
		if req := k.fn.f.ReqNTid; req != [3]uint32{} && l.Block[d] != max(req[d], 1) {
			return fmt.Errorf("%w: block %v, but the kernel requires %v", gpu.ErrInvalid, l.Block, req)
		}
	}
	most := uint64(lim.MaxThreads)
	if m := k.fn.f.MaxNTid; m != [3]uint32{} {
		most = min(most, uint64(m[0])*uint64(max(m[1], 1))*uint64(max(m[2], 1)))
	}
	shared := k.dynamic + uint64(l.SharedBytes)
	switch {
	case l.Cooperative && uint64(l.Grid[0])*uint64(l.Grid[1])*uint64(l.Grid[2]) > maxTogether:
		return fmt.Errorf("%w: grid %v, and %d blocks run at the same time", gpu.ErrGridTooLarge, l.Grid, maxTogether)
	case threads > most:
		return fmt.Errorf("%w: %d threads in a block, at most %d are possible", gpu.ErrInvalid, threads, most)
	case shared > uint64(lim.SharedBytes):
		return fmt.Errorf("%w: %d bytes of shared memory, at most %d are possible", gpu.ErrInvalid, shared, lim.SharedBytes)
	case uint64(len(l.Params)) < k.fn.params:
		return fmt.Errorf("%w: %d bytes of parameters, the kernel takes %d", gpu.ErrInvalid, len(l.Params), k.fn.params)
	case linkBytes+k.fn.local > uint64(lim.StackBytes):
		return fmt.Errorf("%w: %d bytes of local memory for each thread, at most %d are possible", gpu.ErrInvalid, k.fn.local, lim.StackBytes)
	}
	return nil
}

// begin makes the threads.
func (b *block) begin() {
	dims := b.launch.Block
	for n := range int(dims[0]) * int(dims[1]) * int(dims[2]) {
		u := uint32(n)
		t := &thread{b: b, n: n, tid: [3]uint32{u % dims[0], u / dims[0] % dims[1], u / dims[0] / dims[1]}}
		b.threads = append(b.threads, t)
		t.enter(b.k.fn, nil)
	}
	b.live = len(b.threads)
	b.groups = make([]uint64, (b.live+warpSize-1)/warpSize)
	for i := range b.bars {
		b.bars[i].reset(len(b.threads))
	}
}

// round gives each thread its turn. It reports whether one did something, and whether not all have
// exited.
func (b *block) round() (moved, left bool) {
	b.turn++
	for _, t := range b.threads {
		if t.state == running {
			t.run()
			moved = true
		}
	}
	if b.live == 0 {
		return true, false
	}
	return b.meet(false) || moved, true
}

// run runs a slice of statements.
func (t *thread) run() {
	for range slice {
		if t.state != running {
			return
		}
		if *t.b.budget == 0 {
			t.fail(gpu.LostTimeout, "")
		}
		*t.b.budget--
		t.step()
	}
}

// step runs one statement.
func (t *thread) step() {
	n, body := t.pc, t.fn.f.Body
	if n == len(body) {
		t.leave()
		return
	}
	t.pc++
	i, ok := body[n].(*ptx.Instr)
	if !ok || t.fn.gone[n] || i.Guard.Name != "" && (t.regs[i.Guard.Reg] == 1) == i.Guard.Neg {
		return
	}
	if s := t.fn.sums[n]; s != nil {
		t.fused(i, s)
		return
	}
	t.exec(i)
}

// fail ends the kernel with a fault of this thread.
func (t *thread) fail(cause gpu.LostCause, detail string) { panic(t.lost(cause, detail)) }

func (t *thread) lost(cause gpu.LostCause, detail string) *gpu.LostError {
	body := t.fn.f.Body
	if at := min(max(t.pc-1, 0), len(body)-1); at >= 0 {
		if detail != "" {
			detail += ", "
		}
		detail += fmt.Sprintf("at %s:%d", t.b.k.prog.file, body[at].Position().Line)
	}
	return &gpu.LostError{Cause: cause, Kernel: t.b.k.fn.f.Name, Block: t.b.id, Thread: t.tid, Detail: detail}
}
