package sandbox

import "unsafe"

// addressOf returns where b begins. It is memory of a mapping, which does not move.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
