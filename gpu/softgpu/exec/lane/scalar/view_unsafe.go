package scalar

import "unsafe"

// AsF32 and AsF64 are the same lanes read as floating point; both element types
// have one size and alignment and every bit pattern is a value of both.

func AsF32(r *[32]uint32) *[32]float32 { return (*[32]float32)(unsafe.Pointer(r)) } // same layout, see above

func AsF64(r *[32]uint64) *[32]float64 { return (*[32]float64)(unsafe.Pointer(r)) } // same layout, see above
