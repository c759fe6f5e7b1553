package lane

import (
	"encoding/binary"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// bulkGrain is what addresses and sizes of bulk copies are multiples of.
const bulkGrain = 16

// bulkSizes are the bits of a size that count, as on an H100: 20, of which the last four are left out.
const bulkSizes = 1<<20 - bulkGrain

// A bulk copy counts as bulkCost loop heads, and one more for each bulkBytesPerHead bytes.
const (
	bulkCost         = 16
	bulkBytesPerHead = 256
)

// BulkLanes runs a bulk copy, lane after lane.
func BulkLanes(w *ir.Warp, in *ir.Inst) {
	op := in.X.Bulk
	for m := w.Mask; m != 0; m &= m - 1 {
		w.Lane = ir.FirstOf(m)
		if op.Mask == ir.NoReg {
			bulkOnce(w, op, itself)
			continue
		}
		for ranks := w.R32[op.Mask][w.Lane] & 0xffff; ranks != 0; ranks &= ranks - 1 {
			bulkOnce(w, op, ir.FirstOf(ranks))
		}
	}
}

// itself is the rank of whatever block an address of a copy names, which is no multicast.
const itself = -1

// bulkOnce makes the copy of lane w.Lane, to the block of a rank.
func bulkOnce(w *ir.Warp, op *ir.BulkOp, rank int) {
	n := uint64(0)
	if op.Kind == ir.BulkCopy {
		n = bulkCopy(w, op, rank)
	} else {
		n = boxCopy(w, op, rank)
	}
	w.Budget -= bulkCost + int(n/bulkBytesPerHead)
}

// placeIn is place, but of a multicast at the same offset in the block of a rank.
func placeIn(w *ir.Warp, a *ir.Address, rank int) (ir.Space, uint64) {
	s, addr := place(w, a)
	if rank != itself {
		return ir.SpaceCluster, addr&(1<<tlb.ClusterShift-1) | uint64(rank)<<tlb.ClusterShift
	}
	return s, addr
}

// complete counts bytes at the mbarrier of a copy.
func complete(w *ir.Warp, op *ir.BulkOp, rank int, bytes uint64) {
	if op.Bar.Reg == ir.NoReg {
		return
	}
	s, bar := placeIn(w, &op.Bar, rank)
	sharedBytes(w, s, bar, 8, 8, true)
	completeBytes(w, w.Lane, bar, bytes)
}

// place is the value of an address for lane w.Lane, and its space.
func place(w *ir.Warp, a *ir.Address) (ir.Space, uint64) {
	addr := w.R64[a.Reg][w.Lane] + a.Offset
	if a.Space == ir.SpaceGeneric {
		return ir.WindowOf(addr)
	}
	return a.Space, addr
}

// sharedBytes is shared memory that a copy touches. It ends the kernel where there is not so much.
func sharedBytes(w *ir.Warp, s ir.Space, addr, size, align uint64, write bool) []byte {
	if s != ir.SpaceShared && s != ir.SpaceCluster {
		w.FailAddress(w.Lane, gpu.LostAddress, addr, write, "outside of .shared")
	}
	return checkLane(w, s, w.Lane, addr, size, align, write)
}

// bulkCopy copies bytes, or reduces into them.
func bulkCopy(w *ir.Warp, op *ir.BulkOp, rank int) uint64 {
	size := uint64(w.R32[op.Size][w.Lane]) & bulkSizes
	toSpace, to := placeIn(w, &op.To, rank)
	fromSpace, from := place(w, &op.From)
	if fromSpace != ir.SpaceGlobal && toSpace != ir.SpaceGlobal && !w.Block.Place.Explicit {
		w.FailLane(w.Lane, gpu.LostInstruction, "a copy between blocks, of a launch that asked for no clusters")
	}
	if to%bulkGrain != 0 {
		w.FailAddress(w.Lane, gpu.LostAlign, to, true, "bulk copy")
	}
	if from%bulkGrain != 0 {
		w.FailAddress(w.Lane, gpu.LostAlign, from, false, "bulk copy")
	}
	if size > 0 {
		copyBytes(w, op, toSpace, to, fromSpace, from, size)
	}
	complete(w, op, rank, size)
	return size
}

// copyBytes is bulkCopy of at least one byte. One side at least is shared memory, which bounds the size.
func copyBytes(w *ir.Warp, op *ir.BulkOp, toSpace ir.Space, to uint64, fromSpace ir.Space, from, size uint64) {
	switch {
	case op.Atom != nil:
		data := sharedBytes(w, fromSpace, from, size, bulkGrain, false)
		n := op.Atom.Size
		for at := uint64(0); at < size; at += n {
			atomLane(w, toSpace, w.Lane, to+at, op.Atom, loadBytes(data[at:], n), 0)
		}
	case fromSpace == ir.SpaceGlobal:
		readGlobal(w, from, sharedBytes(w, toSpace, to, size, bulkGrain, true)[:size])
	case toSpace == ir.SpaceGlobal:
		writeGlobal(w, to, sharedBytes(w, fromSpace, from, size, bulkGrain, false)[:size])
	default:
		data := sharedBytes(w, fromSpace, from, size, bulkGrain, false)[:size]
		copy(sharedBytes(w, toSpace, to, size, bulkGrain, true), data)
	}
}

// bulkPage returns the page of an address, and how much of size bytes lies in it.
func bulkPage(w *ir.Warp, addr uint64, size int, prot gpu.Prot) (e *tlb.Translation, n uint64) {
	if e = w.Worker.TLB.Translate(addr, prot); e == nil {
		w.FailAddress(w.Lane, gpu.LostAddress, addr, prot == gpu.ProtWrite, "bulk copy")
	}
	return e, min(uint64(size), e.Mask+1-addr&e.Mask)
}

// readGlobal reads global memory. The address may be odd.
//
//go:norace
func readGlobal(w *ir.Warp, addr uint64, to []byte) {
	for len(to) > 0 {
		e, n := bulkPage(w, addr, len(to), gpu.ProtRead)
		k := uint64(0)
		for ; k < n && (addr+k)%8 != 0; k++ {
			to[k] = *tlb.At[uint8](e, addr+k)
		}
		for ; k+8 <= n; k += 8 {
			binary.LittleEndian.PutUint64(to[k:], *tlb.At[uint64](e, addr+k))
		}
		for ; k < n; k++ {
			to[k] = *tlb.At[uint8](e, addr+k)
		}
		to, addr = to[n:], addr+n
	}
}

// writeGlobal writes global memory. The address may be odd.
//
//go:norace
func writeGlobal(w *ir.Warp, addr uint64, from []byte) {
	for len(from) > 0 {
		e, n := bulkPage(w, addr, len(from), gpu.ProtWrite)
		k := uint64(0)
		for ; k < n && (addr+k)%8 != 0; k++ {
			*tlb.At[uint8](e, addr+k) = from[k]
		}
		for ; k+8 <= n; k += 8 {
			*tlb.At[uint64](e, addr+k) = binary.LittleEndian.Uint64(from[k:])
		}
		for ; k < n; k++ {
			*tlb.At[uint8](e, addr+k) = from[k]
		}
		from, addr = from[n:], addr+n
	}
}

// AlignedLanes ends the kernel where the address of a hint is not a multiple of in.Target.
func AlignedLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		if addr := w.R64[in.A][lane] + in.Imm; addr%uint64(in.Target) != 0 {
			w.FailAddress(lane, gpu.LostAlign, addr, false, "prefetch")
		}
	}
}
