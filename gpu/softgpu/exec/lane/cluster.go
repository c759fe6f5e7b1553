package lane

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Addresses in the shared memory of a cluster, and asynchronous accesses to it.

// maxRank is the last rank that mapa puts into an address: no cluster has that many blocks, and
// accesses to such an address fault.
const maxRank = 0xff

// MapRank32 is mapa of 32 bits: d = the address a in the block whose rank is b.
func MapRank32(w *ir.Warp, in *ir.Inst) {
	d, a, rank := &w.R32[in.D], &w.R32[in.A], &w.R32[in.B]
	for i := range d {
		d[i] = a[i]&(1<<tlb.ClusterShift-1) | min(rank[i], maxRank)<<tlb.ClusterShift
	}
}

// MapRank64 is mapa of 64 bits, of generic addresses too. What lies outside of .shared changes, as on
// an H100.
func MapRank64(w *ir.Warp, in *ir.Inst) {
	d, a, rank := &w.R64[in.D], &w.R64[in.A], &w.R32[in.B]
	for i := range d {
		d[i] = a[i]&^(maxRank<<tlb.ClusterShift) | uint64(min(rank[i], maxRank))<<tlb.ClusterShift
	}
}

// RankOf32 is getctarank of 32 bits.
func RankOf32(w *ir.Warp, in *ir.Inst) {
	d, a := &w.R32[in.D], &w.R32[in.A]
	for i := range d {
		d[i] = a[i] >> tlb.ClusterShift
	}
}

// RankOf64 is getctarank of 64 bits, of generic addresses too.
func RankOf64(w *ir.Warp, in *ir.Inst) {
	d, a := &w.R32[in.D], &w.R64[in.A]
	for i := range d {
		d[i] = uint32(a[i]>>tlb.ClusterShift) & maxRank
	}
}

// ExplicitCluster reads %is_explicit_cluster.
func ExplicitCluster(w *ir.Warp, in *ir.Inst) { w.SetAll(in.D, w.Block.Place.Explicit) }

// AsyncLanes is st.async and red.async, lane after lane. The access is made at once, which PTX permits.
func AsyncLanes(w *ir.Warp, in *ir.Inst) {
	op := in.X.Async
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		addr := clusterAddress(w, in, lane, w.R64[in.A][lane]+in.Imm)
		bar := clusterAddress(w, in, lane, w.R64[op.Barrier][lane]+op.Offset)
		align := op.Size * uint64(op.Count)
		for k, r := range op.Regs[:op.Count] {
			x, at := operand(w, r, op.Size, lane), addr+uint64(k)*op.Size
			if op.Update != nil {
				checkLane(w, ir.SpaceCluster, lane, at, op.Size, align, true)
				x = op.Update(loadLane(w, ir.SpaceCluster, lane, at, op.Size, align), x, 0)
			}
			storeLane(w, ir.SpaceCluster, lane, at, op.Size, align, x)
			align = op.Size // the others are aligned if the first is
		}
		completeBytes(w, lane, bar, op.Size*uint64(op.Count))
	}
	w.Budget -= SpinCost
}

// clusterAddress is an address of an instruction in the shared memory of the cluster.
func clusterAddress(w *ir.Warp, in *ir.Inst, lane int, addr uint64) uint64 {
	if in.Space != ir.SpaceGeneric {
		return addr
	}
	s, at := ir.WindowOf(addr)
	if s != ir.SpaceCluster {
		w.FailAddress(lane, gpu.LostAddress, addr, true, "outside of .shared")
	}
	return at
}

// completeBytes ends the wait of an mbarrier of the cluster for so many bytes.
func completeBytes(w *ir.Warp, lane int, addr, n uint64) {
	checkLane(w, ir.SpaceCluster, lane, addr, 8, 8, true)
	b := mbarrierOf(loadLane(w, ir.SpaceCluster, lane, addr, 8, 8))
	b.bytes -= int64(n)
	if b.bytes < -mbarrierMask {
		w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("mbarrier for %d bytes", b.bytes))
	}
	storeLane(w, ir.SpaceCluster, lane, addr, 8, 8, b.word())
}
