package run

// maxRunBytes bounds the registers, .local and .shared of the blocks that run at a time:
// where a block needs much of them, fewer workers run it, but at least one. A block of
// 1024 threads that use their whole stack takes nearly all of it.
const maxRunBytes = 44 << 20

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
