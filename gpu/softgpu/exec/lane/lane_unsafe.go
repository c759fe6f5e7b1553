package lane

import (
	"unsafe"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// reg is 32-bit or 64-bit register i, as the size of D asks.
func reg[D uint32 | uint64](w *ir.Warp, i uint32) *[32]D {
	var x D
	if unsafe.Sizeof(x) == 8 { // a constant in each instance
		return (*[32]D)(unsafe.Pointer(&w.R64[i])) // D is uint64
	}
	return (*[32]D)(unsafe.Pointer(&w.R32[i])) // D is uint32
}

// fillLanes is fill32 or fill64.
func fillLanes[T uint32 | uint64](d *[32]T, v T) {
	if tlb.SizeOf[T]() == 8 { // a constant in each instance
		fill64((*[32]uint64)(unsafe.Pointer(d)), uint64(v)) // T is uint64
		return
	}
	fill32((*[32]uint32)(unsafe.Pointer(d)), uint32(v)) // T is uint32
}
