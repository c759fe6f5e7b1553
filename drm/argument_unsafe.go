package drm

import "unsafe"

// aligned reports whether argument can be used on b.
func aligned(b []byte) bool {
	// The pointer is only looked at.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(uint64(0)) == 0
}

// argument returns the argument struct of an ioctl that b holds. Decoding it by reflection
// would take longer than most ioctls.
func argument[T any](b []byte) *T {
	var t T
	if uintptr(len(b)) < unsafe.Sizeof(t) {
		panic("drm: the argument of an ioctl is smaller than its struct") // a wrong size in its number
	}
	// b is aligned and large enough, and T has the layout of the C struct, without
	// pointers: any bytes are one. It is the program's byte order in any case.
	return (*T)(unsafe.Pointer(unsafe.SliceData(b)))
}
