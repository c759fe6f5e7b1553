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
// Coordinates are scaled exactly, and become fixed point with 8 bits of fraction, rounded
// to nearest, before they are split into the index of a texel and a weight, as the CUDA
// programming guide's appendix on texture fetching has it. The weighted sum is made of exact
// products in double precision and rounded once to float32. A texel of weight 0 takes no
// part, so it cannot make a NaN. Point sampling takes the floor of the exact coordinate.
// NaN counts as coordinate 0, and infinities as the ends that the address mode gives them;
// with wrap and mirror, which take the fraction, an infinity counts as 0. What NVIDIA's
// units do beyond what the guide says has not been measured yet.
//
// The levels of a texture with mipmaps lie one behind the other, each with the layout of an
// array, so that a level is an array too. The level of detail, with the texture's bias and
// between its ends, has 8 bits of fraction; the nearest level comes from the rounded one.
// Gradients mean the logarithm of the longer step in texels, on a cube of the step on the
// face. Two levels are weighed in double precision with their texels.
//
// The package has no state, starts no goroutines and allocates nothing.
package texture
