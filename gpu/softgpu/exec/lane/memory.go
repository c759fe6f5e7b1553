package lane

import (
	"encoding/binary"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Spin makes the turn of the warp shorter.
func Spin(w *ir.Warp, _ *ir.Inst) { w.Budget -= spinCost }

// FenceLanes orders the warp's accesses before and after it for other workers;
// an atomic read-modify-write does that.
func FenceLanes(w *ir.Warp, _ *ir.Inst) { atomic.AddUint32(&w.Worker.Fence, 1) }

// checkLane ends the kernel unless an access of size bytes is aligned and, but
// for global memory, inside the memory of its space.
func checkLane(w *ir.Warp, s ir.Space, lane int, addr, size, align uint64, write bool) {
	if addr&(align-1) != 0 {
		w.FailAddress(lane, gpu.LostAlign, addr, write, "")
	}
	var limit uint64
	switch s {
	case ir.SpaceGlobal:
		return
	case ir.SpaceShared:
		limit = uint64(len(w.Block.Shared))
	case ir.SpaceLocal:
		limit = 4 * uint64(len(w.Local))
	case ir.SpaceParam:
		limit = uint64(len(w.Block.Params))
	}
	if addr >= limit || limit-addr < size || s == ir.SpaceParam && write {
		w.FailAddress(lane, gpu.LostAddress, addr, write, ir.SpaceNames[s])
	}
}

// loadLane reads for one lane; align is in bytes.
//
//go:norace
func loadLane(w *ir.Warp, s ir.Space, lane int, addr, size, align uint64) uint64 {
	if s == ir.SpaceGeneric {
		s, addr = ir.WindowOf(addr)
	}
	checkLane(w, s, lane, addr, size, align, false)
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
	case ir.SpaceShared:
		return loadBytes(w.Block.Shared[addr:], size)
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
	checkLane(w, s, lane, addr, size, align, true)
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
	case ir.SpaceShared:
		b := w.Block.Shared[addr:]
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
}
