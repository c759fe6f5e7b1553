// Package exec runs PTX kernels on the CPU the way a GPU does: warps of 32
// lanes in lock step, with divergence, barriers, shared memory and atomics.
//
// It is the way into stages that import one way only, each from those above it:
//
//	tlb    the windows of the address space, and each worker's cache of translations
//	ir     the decoded form: operations, functions, programs, and the state of a warp
//	lane   what operations do to the lanes of a warp; lane/table is generated
//	lower  decodes and optimises a module: from PTX to ir
//	jit    compiles functions of ir to machine code
//	run    runs blocks: scheduling, divergence, barriers, launches
//
// Lower and jit do not know each other; run knows neither PTX nor lower.
//
// # Who owns what
//
// Run starts one goroutine for each worker. A worker takes block numbers from an
// atomic counter, several at a time where blocks are short, and owns everything of its
// block: warps, registers, .shared, .local and the TLB. Global memory is shared: atomics
// on it are real, plain accesses are single loads and stores of their natural size.
//
// A Program is immutable after Link, but for the native code of its kernels, which
// appears at once and stays; the worker that finds a kernel hot makes it, or has a goroutine make it. A Control
// belongs to one Run at a time; its mutex guards only the list of workers, and no
// other lock is taken under it.
package exec
