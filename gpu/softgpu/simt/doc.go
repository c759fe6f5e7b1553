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
// # Native code
//
// On amd64 Linux with AVX-512 (F, BW, DQ, VL) a kernel that runs often is compiled
// (jit*.go) when its warps have asked for it some times: once for warps of which all
// lanes run, once for others. Decoded operations become a few vector instructions
// each; registers of the warp stay in vector registers from one branch to the next,
// values that are the same in all lanes are computed once, and branches on which
// all lanes agree, loops and accesses to known pages need no Go. Everything else
// (what opcode.go does not list, lanes that disagree, faults, pages that are new)
// leaves native code at an instruction for the interpreter, which goes on from
// there and enters native code again where it can. So there is one place for
// faults and for divergence, and results are the interpreter's, bit for bit.
// GODEBUG=cpu.avx512f=off interprets all; so does a host that forbids executable
// memory, and a function that is beyond the bounds in jit.go. pvdrm doctor says
// what a machine does.
//
// PTX is hostile, and native code cannot be made to touch other memory: it
// addresses registers by their numbers in the function, which bound what is
// allocated for a frame; predicates, parameters and its own tables by constants;
// .shared after a comparison with its size; and pages by an offset that was
// checked against the page's size, lane by lane, after a look-up by the
// interpreter with the rights that the access needs. It has no stack, no calls,
// and jumps to its own labels only. It runs as a leaf of an assembly function on
// the goroutine's stack, where the Go runtime neither moves the stack nor stops
// it; each loop head counts, so that it returns within some ten microseconds, and
// sees Control as the interpreter does. A memory fault of the host is a panic of
// the caller. Code is written first and executable then, never both, and is freed with
// its Program. It works the same under the race detector, which does not see its
// accesses.
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
// A Program is immutable after Link, but for the native code of its kernels, which
// appears at once and stays; the worker that finds a kernel hot makes it. A Control
// belongs to one Run at a time; its mutex guards only the list of workers, and no
// other lock is taken under it.
package simt
