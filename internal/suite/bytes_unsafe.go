package suite

import "unsafe"

// number is an element of a buffer that GPU and CPU share.
type number interface {
	~uint16 | ~int32 | ~uint32 | ~float32 | ~uint64
}

// bytesOf is the memory of s as bytes, for the copies to and from the GPU, whose
// byte order is that of the CPUs this runs on (little-endian).
func bytesOf[T number](s []T) []byte {
	var t T
	size := int(unsafe.Sizeof(t)) // a constant of T; touches no memory
	// The slice covers exactly the elements of s, has no pointers in it, and
	// keeps s alive.
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), size*len(s))
}
