package run

// maxRunBytes bounds the registers, .local and .shared of the blocks that run at a time:
// where a block needs much of them, fewer workers run it, but at least one. A block of
// 1024 threads that use their whole stack takes nearly all of it. A cluster that needs more is refused.
const maxRunBytes = 44 << 20

// StateBytes is what the blocks of a launch take at most, if so many workers run it, and so its
// State. It is 0 for a launch that is not possible.
func (k *Kernel) StateBytes(l *Launch, workers int) int {
	r := run{kernel: k, launch: *l}
	if r.check() != nil {
		return 0
	}
	n := max(r.clusterBytes(), 1)
	clusters := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2]) / r.size
	return int(min(uint64(max(min(workers, maxRunBytes/n), 1)), clusters)) * n
}

// stateBytes is what the blocks of a launch that runs take at most, and so its State.
func (r *run) stateBytes() int { return r.workers * max(r.clusterBytes(), 1) }

// blockBytes is what a block of a launch takes of the host's memory, at most.
func (r *run) blockBytes() int {
	d := r.launch.Block
	warps := (int(d[0])*int(d[1])*int(d[2]) + 31) / 32
	stack := min(r.kernel.fn.Depth, r.launch.Limits.StackBytes)
	if stack > r.kernel.fn.FrameBytes {
		stack += stack / 4 // see grow
	}
	return warps*32*stack + r.sharedBytes()
}

// bytes is what the blocks of a worker have by now. Where a kernel calls functions by their addresses that is much less than
// blockBytes, which counts all of a stack.
func (w *worker) bytes() (n int) {
	for _, b := range w.blocks {
		n += len(b.Shared)
		for i := range b.warps {
			x := &b.warps[i]
			n += 32*4*(cap(x.Store32)+cap(x.Local)) + 32*8*cap(x.Store64) + 4*cap(x.StorePr)
		}
	}
	return n
}
