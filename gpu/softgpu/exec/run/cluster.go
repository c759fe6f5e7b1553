package run

import (
	"fmt"
	"math/bits"
	"runtime"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// Clusters.
//
// A cluster is what a worker runs at a time: the warps of all its blocks take their turns on one
// goroutine, as those of a single block do. So blocks of a cluster make progress together however few
// workers there are, accesses to the shared memory of another block need no atomics, and a preempted
// cluster stops as a whole. A launch without clusters has clusters of one block. The memory of a block
// lives until its cluster has ended: what others read of a block that has ended is what it left.
//
// Blocks are numbered cluster after cluster, those of a cluster by their rank.

// clusterBarrier is the number of the cluster's barrier, in fragments that wait there.
const clusterBarrier = barriers

// checkCluster finds the size of the clusters of a launch whose shape is valid otherwise.
func (r *run) checkCluster() error {
	l, fn := &r.launch, r.kernel.fn
	r.cluster, r.size = [3]uint32{1, 1, 1}, 1
	switch want := fn.ReqCluster; {
	case l.Cluster == [3]uint32{} && want == [3]uint32{}:
		return nil
	case want == [3]uint32{}:
		r.cluster = l.Cluster
	case l.Cluster != [3]uint32{} && l.Cluster != want:
		return fmt.Errorf("%w: clusters of %v blocks, but the kernel requires %v", gpu.ErrCluster, l.Cluster, want)
	default:
		r.cluster = want
	}
	for i, n := range r.cluster {
		if n == 0 || l.Grid[i]%n != 0 {
			return fmt.Errorf("%w: a grid of %v blocks, in clusters of %v", gpu.ErrCluster, l.Grid, r.cluster)
		}
		if r.size *= uint64(n); r.size > uint64(l.Limits.MaxCluster) {
			return fmt.Errorf("%w: clusters of %v blocks; at most %d are possible", gpu.ErrCluster, r.cluster, l.Limits.MaxCluster)
		}
	}
	if most := fn.MaxCluster; most != 0 && r.size > uint64(most) {
		return fmt.Errorf("%w: clusters of %v blocks; the kernel allows %d", gpu.ErrCluster, r.cluster, most)
	}
	if r.size > 1 && r.clusterBytes() > maxRunBytes {
		return fmt.Errorf("%w: the blocks of a cluster of %v need %d bytes of registers, local and shared memory; at most %d are possible",
			gpu.ErrCluster, r.cluster, r.clusterBytes(), maxRunBytes)
	}
	return nil
}

// clusterBytes is what a cluster takes of the host's memory, at most.
func (r *run) clusterBytes() int { return r.blockBytes() * int(r.size) }

// explicit reports whether the launch or the kernel says how large clusters are.
func (r *run) explicit() bool {
	return r.launch.Cluster != [3]uint32{} || r.kernel.fn.ReqCluster != [3]uint32{}
}

// newBlocks makes the state for clusters of one launch and of others that fit.
func newBlocks(w *worker, r *run) []*block {
	blocks := make([]*block, r.size)
	peers := make([]*ir.Block, r.size)
	for i := range blocks {
		blocks[i] = newBlock(w, r, uint32(i))
		peers[i] = &blocks[i].Block
	}
	for _, b := range blocks {
		b.Place.Peers = peers
	}
	return blocks
}

// blockAt is the place in the grid of block number n.
func (r *run) blockAt(n uint64) (id [3]uint32) {
	cluster, rank := n/r.size, n%r.size
	for i := range id {
		across, many := uint64(r.cluster[i]), uint64(r.launch.Grid[i]/r.cluster[i])
		id[i] = uint32(cluster%many*across + rank%across)
		cluster, rank = cluster/many, rank/across
	}
	return id
}

// runCluster runs cluster n, or goes on with the blocks of a state, until it ends or is preempted.
func (w *worker) runCluster(n uint64, from []blockState) {
	first := n * w.run.size
	if from != nil {
		first = from[0].number
	}
	if w.control.word.Load() != w.seen {
		w.poll()
	}
	if w.preempting {
		if from == nil {
			from = unbegun(first, w.run.size)
		}
		w.keep(from...)
		return
	}
	if len(w.blocks) == 0 {
		w.blocks = newBlocks(w, w.run)
	}
	w.met = from != nil
	for i, b := range w.blocks {
		b.begin(w.run.blockAt(first + uint64(i)))
		if from != nil && len(from[i].warps) != 0 {
			w.Cycles += from[i].cycles
			b.load(w.run, &from[i])
			b.recount()
		}
	}
	if !w.runBlocks() {
		for i, b := range w.blocks {
			w.keep(b.save(first+uint64(i), w.Cycles))
			w.Cycles = 0 // the first block has them all
		}
		w.blocks = nil
		return
	}
	if t := w.run.launch.Tree; t != nil {
		for _, b := range w.blocks {
			t.forget(b.Number())
		}
	}
	w.account(first)
}

// account adds the cycles of the cluster whose first block is given to those of its multiprocessors.
func (w *worker) account(first uint64) {
	m := w.run.launch.Model
	if m == nil {
		return
	}
	all, size := w.Cycles, w.run.size
	w.Cycles = 0
	for rank := range size {
		sum := m.Add(first+rank, all*(rank+1)/size-all*rank/size)
		if m.Limit != 0 && sum > m.Limit {
			panic(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: w.run.kernel.attrs.Name, Detail: "by modelled time"})
		}
	}
}

// runBlocks runs the blocks of the worker's cluster to their end, or until they are to be preempted:
// then it reports false.
func (w *worker) runBlocks() bool {
	for w.stuck = false; ; {
		var all progress
		for _, b := range w.blocks {
			if !b.turn(&all) {
				return false
			}
			all.left = all.left || b.left != 0
		}
		switch {
		case w.awaiting: // the whole launch stops, so that the host's memory for blocks that wait has a bound
			w.control.Preempt()
			return false
		case !all.left:
			return true
		case all.made:
			w.stuck = false
			if all.spent && w.run.grid != nil {
				runtime.Gosched() // there may be more multiprocessors than processors
			}
		case all.sleeping:
			w.sleep()
		case !w.stuck:
			w.stuck = true
		default:
			w.deadlock()
		}
	}
}

// clusterBarrier runs barrier.cluster for the active lanes. A lane arrives, and waits later; it is in
// met in between, and in passed once all have arrived. A lane that arrives twice has arrived, and one that
// waits without having arrived goes on: PTX leaves both open, and an H100 ends neither.
func (w *warp) clusterBarrier(in *ir.Inst) bool {
	if in.X.Barrier.Arrive {
		w.met |= w.Mask
		w.worker.met = true
		w.worker.settle()
		return true
	}
	stay := w.Mask & w.met &^ w.passed
	w.passed &^= w.Mask
	if stay == 0 {
		return true
	}
	w.Rest = append(w.Rest, ir.Fragment{Mask: stay, PC: w.PC, Frame: w.Frame, State: ir.AtBarrier, Wait: in, Barrier: clusterBarrier})
	if w.Mask &^= stay; w.Mask != 0 {
		return true
	}
	return w.pick()
}

// settle completes the barrier of the cluster if all threads that have not exited have arrived.
func (w *worker) settle() {
	some := uint32(0)
	for _, b := range w.blocks {
		for i := len(b.warps) - 1; i >= 0; i-- { // the last is most often the one that is missing
			p := &b.warps[i]
			if p.Live&^p.met != 0 {
				return
			}
			some |= p.met & p.Live
		}
	}
	if some == 0 {
		return
	}
	for _, b := range w.blocks {
		for i := range b.warps {
			b.warps[i].releaseCluster()
		}
	}
}

// expects reports whether lanes wait at the barrier of the cluster that may still come to where others
// of the warp wait for them: other blocks have to arrive first.
func (w *warp) expects() bool {
	for i := range w.Rest {
		if f := &w.Rest[i]; f.State == ir.AtBarrier && f.Barrier == clusterBarrier {
			return !w.worker.stuck
		}
	}
	return false
}

// recount counts the warps that have not ended, once the block has been loaded.
func (b *block) recount() {
	b.left = 0
	for i := range b.warps {
		if b.warps[i].Live != 0 {
			b.left++
		}
	}
	b.Ended = b.left == 0
}

// releaseCluster lets the fragments at the barrier of the cluster go on.
func (w *warp) releaseCluster() {
	w.passed |= w.met & w.Live
	w.met = 0
	for i := range w.Rest {
		if f := &w.Rest[i]; f.State == ir.AtBarrier && f.Barrier == clusterBarrier {
			w.passed &^= f.Mask
		}
	}
	w.release(clusterBarrier, nil)
}

// arrivedAtCluster says how many threads have arrived at the barrier of the cluster, "" if none.
func (w *worker) arrivedAtCluster() string {
	n := 0
	for _, b := range w.blocks {
		for i := range b.warps {
			n += bits.OnesCount32(b.warps[i].met)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d threads at that of the cluster", n)
}
