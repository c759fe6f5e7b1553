// Package simt runs PTX kernels on the CPU the way a GPU does: warps of 32
// lanes in lock step, with divergence, barriers, shared memory and atomics.
//
// # From text to lanes
//
// Compile decodes each function of a parsed module once into flat operations:
// registers are dense indexes, branch targets are positions, and each operation
// holds the Go function that computes it for 32 lanes. Nothing is looked up by
// name at run time. The lane functions are rows of a table (package
// internal/lanegen generates lanes_gen.go from it); a further instruction is a
// further row.
//
// Built with GOEXPERIMENT=simd for amd64, as make build does, many lane functions
// have twins that compute 8 or 4 lanes at once (lane_simd.go; lanegen makes them
// of the same table), and so have the loads and stores of whole warps
// (vector_simd.go). They replace the portable ones at start if the processor has
// AVX2 and FMA; GODEBUG=cpu.avx2=off keeps the portable ones. Both give the same
// bits: make simd compares them lane by lane.
//
// Registers of the source that are not alive at the same time share a place, and
// products are fused into sums where PTX allows it and NVIDIA's compiler does it
// (contract.go), so that results are the hardware's.
//
// # Divergence
//
// A warp is a set of fragments: groups of lanes with one position. Basic blocks
// are laid out so that loops are contiguous (a weak topological order), and the
// fragment with the deepest call stack and then the lowest position runs first;
// fragments that meet are merged. So lanes reconverge at the immediate
// post-dominator at the latest. A fragment that runs long while others wait
// gives way to them, as does a warp to other warps, so lanes may wait for each
// other as on Volta and later. Blocks start in order and keep their worker to
// their end: a block may wait for earlier ones, not for later ones.
//
// # Who owns what
//
// Run starts one goroutine for each worker. A worker takes block numbers from an
// atomic counter and owns everything of its block: warps, registers, .shared,
// .local and the TLB. Global memory is shared: atomics on it are real, plain
// accesses are single loads and stores of their natural size.
//
// A Program is immutable after Link. A Control belongs to one Run at a time; its
// mutex guards only the list of workers, and no other lock is taken under it.
package simt
