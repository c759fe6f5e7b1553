// Package tensormap holds what the maker of a tensor map (CUtensorMap) and the engine that copies
// through it must agree on: the descriptor, its rules, and where the elements of a box lie.
//
// # The map
//
// A tensor map is a descriptor of 128 bytes, which programs pass to kernels by value, or copy to global
// or constant memory. Its encoding is this package's own: CUDA calls it opaque, and no program has a way
// to look into one but tensormap.replace, which is Replace. All zeros with each field replaced is a map,
// too, as on an H100.
//
// # Trust
//
// A program can write anything into a descriptor, also while a kernel reads it. The engine copies the 128
// bytes once, and Decode checks every field of the copy. Which memory a map names is not checked: each
// access goes through the page tables of the context. What Decode accepts has boxes of at most 228 KiB of
// elements; steps, swizzles and slices of channels can make more of them, which shared memory must hold
// before a copy begins. So every loop over a box is bounded.
//
// # What an H100 does
//
// What follows was found by comparing with an H100 (driver 580.159.04); tests/ptx/tensor and
// tests/ptx/kernels hold the recordings, tests/answers what cuTensorMapEncodeTiled and its like refuse.
//
// Coordinates of dimension 0 must be multiples of 16 bytes, unless the tensor is interleaved; others end
// the kernel with an illegal instruction. So do negative coordinates of stores and reductions, columns of
// pixels that begin outside of their corners, ranks and modes that are not those of the instruction,
// fields that no map has, and reductions that the elements do not have. An address of the tensor that is
// not aligned, of the map (64 bytes) or of the box (128 bytes) ends it as misaligned.
//
// Loads end with the last element of a row, stores and reductions with the 16 bytes that it lies in: they
// also write what follows the element there.
//
// An mbarrier counts all bytes of a box, also those outside of the tensor, but not the padding of a
// swizzle: with one, rows of a box take its whole span (32, 64 or 128 bytes) in shared memory, and what is
// between stays as it was. Chunks of 16 bytes change places within 1024 bytes of shared memory, by the
// bits of their addresses, wherever the box begins.
//
// An interleaved tensor consists of slices of 16 or 32 bytes: dimension 0 counts them, its extent, the
// coordinates and the box too, and its step counts as those of other dimensions do. Of the dimension
// before the last, that of the channels, a box has one, whatever its extent there.
//
// TF32 is rounded when it is loaded, to nearest with ties to even, and every NaN becomes 0x7fffe000;
// the types with flushed subnormals flush none. NaN as a fill is 0x7ff7 in each 16 bits.
//
// tensormap.replace takes the rank less one; extents of boxes and steps wrap around (0 is 256 and 8), and
// strides lose their last four bits.
package tensormap
