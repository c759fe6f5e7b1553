// Package jit compiles kernels to machine code, on amd64 Linux with AVX-512 (F, BW,
// DQ, VL), with AVX2 (FMA, BMI2), or with SSE4.2 (x86-64-v2), once their warps have asked for it some times: one
// variant for warps of which all lanes run, one for others. Functions that take more than some
// milliseconds are compiled in the background (later.go), on a bounded number of goroutines, and interpreted
// until then.
//
// Decoded operations become a few vector instructions each; registers of the warp stay
// in vector registers from one branch to the next, values that are the same in all
// lanes are computed once, and branches on which all lanes agree, loops and accesses to
// known pages need no Go, atomic ones included (atomic.go), nor do those of .shared and .local by generic addresses (windows.go). Lanes that disagree on a branch part and meet
// in native code, in the order in which the interpreter runs them (apart.go). An operation of which native code has no
// form is done by the function that interprets it, and the warp goes on in native code (help.go). Calls of functions stay in native code, too (calls.go). Everything else
// (faults, pages that are new) leaves native code at an instruction for the
// interpreter, which goes on from there and enters native code again where it can. So
// there is one place for faults, and results are the interpreter's, bit for bit. GODEBUG=cpu.avx512f=off compiles for AVX2, cpu.avx512f=off,cpu.avx2=off for SSE4.2, and with
// cpu.sse42=off added to these all are interpreted; so they are on a host that forbids executable memory, and a function that is
// beyond the bounds in function.go. The command "pvdrm doctor" reports what a machine does.
//
// What an operation does is written once, with vectors of 512 bits and masks (rows.go,
// memory.go and so on). For AVX2, package x86 takes each such vector for a pair of 256 bits
// and each mask for vectors, and knows what of AVX-512 takes several instructions then. For SSE4.2, it takes each instruction on 256 bits
// for two on 128, and does without VEX prefixes; FMA of float64 is done by its function there.
//
// Native code goes from a warp that has come to a barrier to the next one of its block, where all
// of them can (ring.go), also where barriers are for some threads, let warps go on, or
// combine predicates, or lie in functions (crew.go), and where there are no barriers from the end of a warp to the next one's begin (chain.go).
//
// Products of matrices (matrix.go) are computed by vectors of sums, as exactly as their functions do it.
//
// Lanes that disagree on a branch around a few operations do not part: they run those together, each operation guarded by the
// branch's predicate: package lower makes such code beside that for lanes that agree.
//
// Where the rows of a block are whole warps, native code knows how the lanes of %tid lie, and of sums and products of it
// (strides.go): it computes the first part of such a register, and makes the others where they are wanted. For that there is
// code of its own for launches of such blocks (shaped.go). What is known of a register holds from block to block where
// one operation writes it (claims.go), and ends at each operation that writes the register, in whatever way: registers (live.go)
// lists those, and an operation of which it does not know them ends all. Frames in memory always have all lanes' values where native
// code is left, so that the interpreter, calls, and lanes that part know nothing of it.
//
// # Safety
//
// PTX is hostile, and native code cannot be made to touch other memory: it
// addresses registers by their numbers in the function, which bound what is
// allocated for a frame; predicates, parameters and its own tables by constants;
// .shared after a comparison with its size, of each lane, or of the first of the warp, of a half of it, or of eight lanes,
// that are known to follow one another or to be the same (places.go, groups.go), for one access or at once for several that
// have the register of the address in common, in one run of operations or until the register is written again (kept.go), or
// of the first and the last of 32 rows that are equally far from one another (quads.go); .local after a comparison
// of each lane with what the warp has of it, which only Go changes; and pages by an offset that was
// checked against the size of the page, or of the pages that are one extent with it (extent.go), lane by lane, after a look-up by the
// interpreter with the rights that the access needs; it takes over pages that other accesses
// found, loads from loads and stores from stores, of which each page may be read, too, so that atomic operations
// are among them. Lanes in several pages have each a page of its
// own: a lane's address, with the bits of its offset cleared, must be the base of that page, and the
// size of the page, which says how many bits that are, must be the same; the address in the host's
// memory is the page's and that offset, which are below its size. Where lanes are known to follow one another it takes the
// addresses of all from that of the first lane, and compares all of what they access with the extent: were that knowledge
// wrong, as by the registers in a state of a preempted launch that somebody has changed, the kernel would get other values, and nothing
// beyond its mappings. What it fetches into the cache beyond an extent it never reads.
// Two words of a lane that are loaded at once (beside.go) lie
// in one extent, which the lower one's offset is compared with, less the bytes of both. For AVX2, for SSE4.2, and for atomic operations, it has an
// area of its worker beside, which it addresses by constants and by numbers of lanes, below 32: addresses of the
// host that atomic operations write there are ones that were checked so, and are read before anything else runs; lanes that are
// not active are not accessed. So are those of accesses that go lane by lane (copies.go), and of rows of matrices, of which the operation's
// form says how many there are (matrix_rows.go); copies take zeros from the area where a lane's source has nothing, and nothing of its address then. What loads and stores part of a vector has a mask, or goes lane by lane, too.
// All widths make the same checks, by the same code. It goes to frames of warps of the same block only, where Go put their addresses, in a crew by
// the numbers of warps that Go said are in it, and accesses what is known of a barrier by its number, which it compares with that of barriers. Rows of the frame's .local memory that
// operations name lie below what the function asks for, which each frame has. Fragments that wait lie in the frame, and
// are not more than lanes are. It has no stack, and jumps to its own labels only, to those of the
// function's other variant, through the list of them by a position that is one of the function's, and to where functions begin
// that it calls: the code names those, and compares a register with their addresses. It calls one only after it has
// compared what the warp has of registers, local memory and stack with what the function asks for, and returns to an address that
// it, or Go in its place (reopen.go), wrote down beside the frame, where no access of a kernel comes. It runs as a leaf of an assembly function on
// the goroutine's stack, where the Go runtime neither moves the stack nor stops
// it; each loop head and each atomic operation counts, so that it returns within some ten microseconds, and
// sees run.Control as the interpreter does. A memory fault of the host is a panic of
// the caller. Code is written first and executable then, never both, and is freed with
// its Program. It works the same under the race detector, which does not see its
// accesses.
package jit
