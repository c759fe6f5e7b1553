package ptx_test

import "unsafe"

// wordBytes returns the bytes of words; engines want memory aligned to 8 bytes.
func wordBytes(words []uint64) []byte {
	// A slice of words has no padding and stays alive through the result.
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
}
