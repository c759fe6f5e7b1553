package run

import "pvdrm/gpu/softgpu/exec/ir"

// shortCode is how many operations a kernel has at most that Short accepts, and shortWork how many times a warp
// runs one in a launch: some microseconds of work, and some hundred if each of them is interpreted and touches
// memory for the first time.
const (
	shortCode = 64
	shortWork = 256
)

// Short reports whether a launch of a kernel ends within microseconds, whatever it finds in memory: it has
// few operations, runs none of them twice, and waits for nothing.
func (k *Kernel) Short(grid, block [3]uint32) bool {
	if !k.straight {
		return false
	}
	work := uint64(k.fn.End - k.fn.Entry)
	for i := range 3 {
		if work > shortWork {
			return false // and no product below is too large for 64 bits
		}
		work *= uint64(grid[i])
	}
	threads := uint64(block[0]) * uint64(block[1])
	return work > 0 && work <= shortWork && threads <= shortWork*32 && work*((threads*uint64(block[2])+31)/32) <= shortWork
}

// Clusters returns how many clusters a valid launch of a kernel has: no more workers than that have something to do.
func (k *Kernel) Clusters(grid, cluster [3]uint32) uint64 {
	if cluster == [3]uint32{} {
		cluster = k.fn.ReqCluster
	}
	n := uint64(1)
	for i := range 3 {
		n *= uint64(grid[i] / max(cluster[i], 1))
	}
	return n
}

// isStraight reports whether a kernel has few operations, of which each goes on behind itself and waits for nothing.
func isStraight(p *ir.Program, fn *ir.Function) bool {
	if fn.End-fn.Entry > shortCode {
		return false
	}
	for at := fn.Entry; at < fn.End; at++ {
		in := &p.Code[at]
		if x := in.X; x != nil && x.Atom == nil && x.Shfl == nil && in.Kind != ir.KTrap {
			return false // a call, a barrier, or what takes as long as many others
		}
		switch in.Kind {
		case ir.KJump:
			if in.Target <= at {
				return false
			}
		case ir.KBranch, ir.KCompareBranch:
			if in.Target <= at || in.Other <= at || in.E != 0 && int32(in.E) <= at {
				return false
			}
		case ir.KIndexed, ir.KCall, ir.KBarrier, ir.KSleep, ir.KPass, ir.KChildren:
			return false
		}
	}
	return true
}
