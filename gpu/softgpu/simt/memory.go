package simt

import (
	"encoding/binary"

	"pvdrm/gpu"
)

// space is where an access goes.
type space uint8

const (
	spaceGlobal space = iota // and .const
	spaceShared
	spaceLocal
	spaceGeneric
	spaceParam // of the kernel
	spaceConst // for isspacep only
	spaces
)

// windowOf splits a generic address.
func windowOf(va uint64) (space, uint64) {
	switch va &^ (WindowSize - 1) {
	case SharedBase:
		return spaceShared, va - SharedBase
	case LocalBase:
		return spaceLocal, va - LocalBase
	case ParamBase:
		return spaceParam, va - ParamBase
	}
	return spaceGlobal, va
}

// checkLane ends the kernel unless an access of size bytes is aligned and, but
// for global memory, inside the memory of its space.
func (w *warp) checkLane(s space, lane int, addr, size, align uint64, write bool) {
	if addr&(align-1) != 0 {
		w.failAddress(lane, gpu.LostAlign, addr, write, "")
	}
	var limit uint64
	switch s {
	case spaceGlobal:
		return
	case spaceShared:
		limit = uint64(len(w.block.shared))
	case spaceLocal:
		limit = 4 * uint64(len(w.local))
	case spaceParam:
		limit = uint64(len(w.block.params))
	}
	if addr >= limit || limit-addr < size || s == spaceParam && write {
		w.failAddress(lane, gpu.LostAddress, addr, write, spaceNames[s])
	}
}

var spaceNames = [spaces]string{spaceShared: "in .shared", spaceLocal: "in .local", spaceParam: "in .param"}

// loadLane reads for one lane; align is in bytes.
//
//go:norace
func (w *warp) loadLane(s space, lane int, addr, size, align uint64) uint64 {
	if s == spaceGeneric {
		s, addr = windowOf(addr)
	}
	w.checkLane(s, lane, addr, size, align, false)
	switch s {
	case spaceGlobal:
		e := w.worker.translate(addr, gpu.ProtRead)
		if e == nil {
			w.failAddress(lane, gpu.LostAddress, addr, false, "")
		}
		switch size {
		case 1:
			return uint64(*at[uint8](e, addr))
		case 2:
			return uint64(*at[uint16](e, addr))
		case 4:
			return uint64(*at[uint32](e, addr))
		}
		return *at[uint64](e, addr)
	case spaceLocal:
		return w.loadLocal(addr, lane, size)
	case spaceShared:
		return loadBytes(w.block.shared[addr:], size)
	}
	return loadBytes(w.block.params[addr:], size)
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
func (w *warp) storeLane(s space, lane int, addr, size, align, x uint64) {
	if s == spaceGeneric {
		s, addr = windowOf(addr)
	}
	w.checkLane(s, lane, addr, size, align, true)
	switch s {
	case spaceGlobal:
		e := w.worker.translate(addr, gpu.ProtWrite)
		if e == nil {
			w.failAddress(lane, gpu.LostAddress, addr, true, "")
		}
		switch size {
		case 1:
			*at[uint8](e, addr) = uint8(x)
		case 2:
			*at[uint16](e, addr) = uint16(x)
		case 4:
			*at[uint32](e, addr) = uint32(x)
		default:
			*at[uint64](e, addr) = x
		}
	case spaceLocal:
		w.storeLocal(addr, lane, size, x)
	case spaceShared:
		b := w.block.shared[addr:]
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
