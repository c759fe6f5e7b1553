// Package texture holds what the maker of a texture or surface object and the engine that
// reads through it must agree on: the descriptor, the layout of CUDA arrays, and the
// arithmetic of a fetch.
//
// # The object
//
// A texture or surface object is a Descriptor of 128 bytes in device memory. The frontend
// writes it, and CUtexObject or CUsurfObject is its GPU address. The ring protocol, the
// backend and the device interface know nothing of textures: an array is plain memory, a
// copy to it is a copy with rows, and the engine finds the rest through the page tables of
// the context. A handle of another context therefore names nothing.
//
// # Trust
//
// A guest can write anything into the memory that holds a descriptor, also while a kernel
// reads it. The engine copies the 128 bytes once, and Decode checks every field of the
// copy: enumerations, unused bits, extents, strides, and that all texels lie below 1<<48
// and are aligned to their size. What Decode accepts can be fetched from with any
// coordinate, and every address of a texel is inside [Base, Base+Bytes), so at most eight
// texels of a level are read for a fetch, each with one translated load. Whether these addresses are
// mapped is for the page tables to say.
//
// # Arithmetic
//
// What follows was found by comparing with an H100 (driver 580.159.04). tests/ptx/texture holds
// the recordings; the functions' comments have the details.
//
// Coordinates: a subnormal number counts as 0, and so does NaN. A normalized coordinate is first
// cut off (towards minus infinity) to 21 bits of fraction, or 8 more than the extent has if that
// is more, and then multiplied by the extent. Point sampling takes the floor. A filter counts in
// 1/256 of a texel, rounded half up, and with Clamp the result ends at the centres of the first
// and the last texel. Mirror is made of the index alone. A texture of one dimension without layers
// is a row of two, at whose upper edge a filter looks: with Border in y, half of it is the border.
//
// Weights have 8 bits. A filter divides 256 between the levels, then in depth, in x and last in
// y, each part rounded to a whole number (split). A texel whose weight is rounded to 0 still
// spreads NaN and infinities; one that an axis leaves out does not.
//
// Integers that are read as numbers are added with 16 bits: bytes as 257 times themselves, shorts
// as they are, and the sum is rounded half up. Signed bytes are added as they are, and the sum is
// stretched (stretch). Floating-point numbers of a picture are cut off, towards zero, at four bits
// below the last bit that the largest of them has; the sums of two pictures meet at the unit of
// the larger, rounded down; the result is rounded half away from zero to the format's bits.
// Subnormal floats are zeros, subnormal halves are not. Colours of sRGB come from a table of halfs
// with 8 bits, and are added without further bits.
//
// The border is a texel: its colour is cut off to the format, channels that the texture does not
// have are 0 (the fourth too), and integers have the low bits of the float. tld4 gives what a
// filter with one texel would.
//
// The levels of a texture with mipmaps lie one behind the other, each with the layout of an
// array, so that a level is an array too. The level of detail and the bias are cut off to 8 bits
// of fraction each, and added; a fetch that names no level leaves out the bias. The nearest
// level comes from the sum, rounded half up. Coordinates are normalized, also where the descriptor
// does not ask for it; wrap and mirror are Clamp then. Whole coordinates are brought inside as by
// Clamp, in every mode.
//
// Gradients mean the logarithm, from a table by 8 bits, of the longest of both steps and of 11/16
// of their sum and difference. The length of a step is its longest component, 11/32 of the next
// and 1/4 of the last, in 10 bits (gradient.go). On a cube the face
// beside the point's is laid flat. What is left: in three dimensions the level of detail differs by
// 1/256 for 1 gradient in 100, which no fixture shows.
//
// Cubes: NVIDIA's compiler divides a direction by its largest component, with an approximate
// reciprocal in float32. Here it is 1/x, rounded; an H100's differs in the last bit for 1,108,522
// of 8,388,608 mantissas. A weight can differ by 1/256 then, and the face where two components are
// equal but for their last bits. The coordinates of the quotient count, 0 for NaN. A
// filter or tld4 without seams takes the texel of the face beside at an edge, whatever the address mode;
// at a corner of the cube the weight of the texel that there is not goes to the other three (seam.go).
//
// An offset has four bits with a sign, and is added in texels before the address mode counts, also to
// the 0 that infinity is with wrap and mirror. In one dimension without layers the next four bits are the
// offset in y, which only a border there shows.
//
// Not measured: extents above 16384, anisotropic filters.
//
// The package has no state, starts no goroutines and allocates nothing.
package texture
