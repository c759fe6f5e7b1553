//go:build goexperiment.simd && amd64

package lane

import (
	"simd/archsimd"
	"unsafe"

	"pvdrm/gpu/softgpu/exec/lane/vector"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// shapeOf is shapeW or shapeQ.
func shapeOf[A uint32 | uint64](a *[32]A, size uint64) shape {
	if tlb.SizeOf[A]() == 8 { // a constant in each instance
		return shapeQ((*[32]uint64)(unsafe.Pointer(a)), size) // A is uint64
	}
	return shapeW((*[32]uint32)(unsafe.Pointer(a)), size) // A is uint32
}

// vector4 is the vector of 4 words at p, of one lane.
func vector4(p *uint32) *[4]uint32 { return (*[4]uint32)(unsafe.Pointer(p)) } // checked by groups

// groupOf4 is the vectors of 4 words of a group, the first of them at p.
func groupOf4(p *uint32) *[4 * group]uint32 { return (*[4 * group]uint32)(unsafe.Pointer(p)) } // checked by groups

// copyGroup copies the words of a group. Precondition: memory of the group's
// size starts at d and at s.
//
//go:norace
func copyGroup[T uint32 | uint64](d, s *T) {
	to, from := (*[8]uint32)(unsafe.Pointer(d)), (*[8]uint32)(unsafe.Pointer(s)) // all or half of them by the precondition
	archsimd.LoadUint32x8(from).Store(to)
	if tlb.SizeOf[T]() == 8 {
		to, from = (*[8]uint32)(unsafe.Add(unsafe.Pointer(d), 32)), (*[8]uint32)(unsafe.Add(unsafe.Pointer(s), 32)) // the other half
		archsimd.LoadUint32x8(from).Store(to)
	}
}

// fillGroup gives the lanes of a group, which start at d, the same word.
func fillGroup[T uint32 | uint64](d *T, x T) {
	to := (*[8]uint32)(unsafe.Pointer(d)) // all or half of them
	if tlb.SizeOf[T]() == 4 {
		vector.AllW8(uint32(x)).Store(to)
		return
	}
	v := vector.AllQ4(uint64(x)).AsUint32x8()
	v.Store(to)
	v.Store((*[8]uint32)(unsafe.Add(unsafe.Pointer(d), 32))) // the other half
}
