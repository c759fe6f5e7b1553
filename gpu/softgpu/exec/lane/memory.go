package lane

import (
	"encoding/binary"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Spin makes the turn of the warp shorter.
func Spin(w *ir.Warp, in *ir.Inst) { w.Budget -= int(in.Imm) }

// FenceLanes orders the warp's accesses before and after it for other workers;
// an atomic read-modify-write does that.
func FenceLanes(w *ir.Warp, _ *ir.Inst) { atomic.AddUint32(&w.Worker.Fence, 1) }

// checkLane ends the kernel unless an access of size bytes is aligned and, but
// for global memory, inside the memory of its space. Of .shared it returns that memory, from the address
// on.
func checkLane(w *ir.Warp, s ir.Space, lane int, addr, size, align uint64, write bool) (shared []byte) {
	if addr&(align-1) != 0 {
		w.FailAddress(lane, gpu.LostAlign, addr, write, "")
	}
	var limit uint64
	at := addr
	switch s {
	case ir.SpaceGlobal:
		return nil
	case ir.SpaceShared:
		if b, _ := w.Block.At(addr); b != nil && b != w.Block {
			w.FailAddress(lane, gpu.LostInstruction, addr, write, "in .shared of another block, without .shared::cluster")
		}
		shared = w.Block.Shared
		at, limit = addr-w.Block.Own(), uint64(len(shared))
	case ir.SpaceCluster:
		b, off := w.Block.At(addr)
		if b == nil {
			w.FailAddress(lane, gpu.LostAddress, addr, write, "in .shared of a block that has ended, or that the cluster does not have")
		}
		shared = b.Shared
		at, limit = off, uint64(len(shared))
	case ir.SpaceLocal:
		limit = 4 * uint64(len(w.Local))
	case ir.SpaceParam:
		limit = uint64(len(w.Block.Params))
	}
	if at >= limit || limit-at < size || s == ir.SpaceParam && write {
		w.FailAddress(lane, gpu.LostAddress, addr, write, ir.SpaceNames[s])
	}
	if shared != nil {
		shared = shared[at:]
	}
	return shared
}

// loadLane reads for one lane; align is in bytes.
//
//go:norace
func loadLane(w *ir.Warp, s ir.Space, lane int, addr, size, align uint64) uint64 {
	if s == ir.SpaceGeneric {
		s, addr = ir.WindowOf(addr)
	}
	shared := checkLane(w, s, lane, addr, size, align, false)
	switch s {
	case ir.SpaceGlobal:
		e := w.Worker.TLB.Translate(addr, gpu.ProtRead)
		if e == nil {
			w.FailAddress(lane, gpu.LostAddress, addr, false, "")
		}
		switch size {
		case 1:
			return uint64(*tlb.At[uint8](e, addr))
		case 2:
			return uint64(*tlb.At[uint16](e, addr))
		case 4:
			return uint64(*tlb.At[uint32](e, addr))
		}
		return *tlb.At[uint64](e, addr)
	case ir.SpaceLocal:
		return loadLocal(w, addr, lane, size)
	case ir.SpaceShared, ir.SpaceCluster:
		return loadBytes(shared, size)
	}
	return loadBytes(w.Block.Params[addr:], size)
}

func loadBytes(b []byte, size uint64) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// storeLane writes for one lane; align is in bytes.
//
//go:norace
func storeLane(w *ir.Warp, s ir.Space, lane int, addr, size, align, x uint64) {
	if s == ir.SpaceGeneric {
		s, addr = ir.WindowOf(addr)
	}
	shared := checkLane(w, s, lane, addr, size, align, true)
	switch s {
	case ir.SpaceGlobal:
		e := w.Worker.TLB.Translate(addr, gpu.ProtWrite)
		if e == nil {
			w.FailAddress(lane, gpu.LostAddress, addr, true, "")
		}
		switch size {
		case 1:
			*tlb.At[uint8](e, addr) = uint8(x)
		case 2:
			*tlb.At[uint16](e, addr) = uint16(x)
		case 4:
			*tlb.At[uint32](e, addr) = uint32(x)
		default:
			*tlb.At[uint64](e, addr) = x
		}
	case ir.SpaceLocal:
		storeLocal(w, addr, lane, size, x)
	case ir.SpaceShared, ir.SpaceCluster:
		storeBytes(shared, size, x)
	}
}

func storeBytes(b []byte, size, x uint64) {
	switch size {
	case 1:
		b[0] = uint8(x)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(x))
	default:
		binary.LittleEndian.PutUint64(b, x)
	}
}
