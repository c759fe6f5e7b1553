package main

import (
	"fmt"
	"io"
	"strings"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

// write writes docs/ptx.md: every row of the instruction table, and whether the engine runs it.
func write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsHead)
	for _, s := range ptx.Chapters() {
		fmt.Fprintf(&b, "\n## %s %s\n\n| instruction | status |\n| --- | --- |\n", s.Number, s.Title)
		for _, f := range ptx.Forms() {
			if f.Section == s.Number {
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(f.Syntax(), "|", `\|`), status(f))
			}
		}
	}
	b.WriteString("\n## 10 Special registers\n\nAll run.\n\n| register | type |\n| --- | --- |\n")
	for _, s := range ptx.Specials() {
		fmt.Fprintf(&b, "| `%s` | .%s |\n", s, s.Type())
	}
	fmt.Fprintf(&b, docsTail, ptx.MaxSource>>20, ptx.MaxStatements, ptx.MaxOperands, ptx.MaxVariables,
		ptx.MaxDirectives, ptx.MaxInitialiser, ptx.MaxScopes, ptx.MaxNesting, ptx.MaxDiagnostics)
	_, err := io.WriteString(w, b.String())
	return err
}

// status says whether the engine runs a row, and why not.
func status(f *ptx.Form) string {
	switch {
	case exec.Runs(f) == nil && f.Derived:
		return fmt.Sprintf("runs for sm_%d, derived", f.Arch)
	case exec.Runs(f) == nil:
		return "runs"
	case f.Op == ptx.OpRaw:
		return "refused"
	}
	return fmt.Sprintf("parsed only: needs sm_%d", f.Arch)
}

const docsHead = `# PTX

Generated from the instruction table of gpu/ptx by "go generate ./gpu/softgpu"; do not edit.

A kernel reaches the software GPU as PTX text. It is parsed, checked and decoded when the module is loaded; what is
wrong with it is reported then, with file, line and column, up to twenty complaints at once. Nothing of a module runs
that was not accepted as a whole.

* **runs**: the software GPU executes it.
* **derived**: it runs in modules for that .target and later ones, on a device of that capability (--sm). What it does
  follows from the manual and from the instructions that it consists of; it has not been compared with a GPU.
* **parsed only**: it is parsed, checked and printed, so that modules for a real GPU can be read and rewritten; the
  software GPU refuses to load a module that contains it, and names the instruction.
* **refused**: only its text is kept. The software GPU refuses to load a module that contains it. A name stands for
  all instructions that begin with it and stand in no other row.

These are the verdicts of the software GPU alone. An NVIDIA GPU takes every row; what its generation lacks, its driver
refuses.

In the lists, braces enclose what may be left out, and (a/b) means one of a and b. Modifiers may be written in any
order, but for the types among themselves. Section numbers are those of the PTX ISA manual, version 8.5.
`

const docsTail = `
## Directives

Understood: .version, .target, .address_size, .visible, .extern, .weak, .common, .entry, .func, .param, .reg, .const,
.global, .local, .shared, .align, .ptr, .attribute(.managed), .maxntid, .reqntid, .minnctapersm, .maxnctapersm, .maxnreg,
.reqnctapercluster, .explicitcluster, .maxclusterrank, .noreturn, .pragma, .alias, .branchtargets, .calltargets, .callprototype, .file, .loc, .section.

Parsed only: .blocksareclusters, .abi_preserve, .abi_preserve_control, and variables of type .samplerref.

## Matrices

The software GPU computes mma and wmma as an H100 does: 312 fixtures in tests/ptx/op were recorded on one (driver
580.159.04), and both engines return the same bits. NVIDIA does not document the arithmetic. The source of the model is
MMA-Sim (Xie and others, Microsoft Research, arXiv:2511.10909; github.com/microsoft/MMA-Sim); Fasi, Higham, Mikaitis
and Pranesh (PeerJ Computer Science 7:e330, 2021) and Khattak and Mikaitis (arXiv:2512.07004) measured such units as
well. What the recordings corrected is marked "measured".

* f16, bf16, tf32: products are exact and have the sum of the exponents of their factors, whatever their significands.
  Up to 16 products and the accumulator are aligned to the largest of their exponents, and what lies more than 25 bits
  below its unit is cut off, of each. Their sum is exact. An f32 result is cut to its bits (towards zero), an f16 result
  is rounded to nearest even. Subnormal numbers count as they are. Of a tf32 the lower 13 bits are ignored.
* wmma of tf32 adds 4 products at once, not 8 as mma does (measured).
* What exceeds the range is infinite. NaNs are 0x7fffffff and 0x7fff. A sum of zero is positive.
* e4m3 and e5m2: as f16, in blocks of 16 products, or of 8 where k is 16, each added to the result
  of the one before. The first block has the lower two of the four elements of each register. The sum begins with zero,
  and c is added to it at the end, rounded to nearest even (measured).
* mma.m8n8k4 of f16: fma after fma in f32 in the order of k, from zero, rounded to nearest even; then c is added in the
  same way, and an f16 result is rounded once more (measured: sm_90 has no tensor instruction for it).
* wmma with f32 accumulators and an f16 result, or the reverse: as with f32 both, rounded to nearest even at the end.
* f64: fma after fma in the order of k.
* Integers and bits: exact; .satfinite clamps the final sum, without it sums wrap around.
* The registers of wmma's matrices, which PTX leaves open, are in the order of the mma of 16x8 that NVIDIA's compiler
  makes of them, with the elements of f16 multiplicands repeated; m8n32k16 is the transposed m32n8k16.

* mma.sp adds the products of the elements that a has, and of no others, like an mma with half of its k; so a NaN
  or an infinity in b counts only where a has an element for it. Metadata: four bits for each four elements of a row (two
  of tf32, eight of 4 bits), those of the lower elements first. A thread 4g+t has, of 16 bits and tf32, those of four
  such groups of row g and, in its upper half, of row g+8: with one thread by the selector t, with two by t-2f the
  first or the second four. Of 8 bits and less it has eight groups of row g or g+8, by t mod 2; where four threads have
  metadata, t / 2 says which eight (measured). The first of two indices may be the larger one without
  .ordered_metadata. Equal ones, which PTX leaves undefined, use an element of b twice here. f16 sums of e4m3 and e5m2 are
  refused, as by ptxas, and so is a selector above 1 of m16n8k32 of f16 and bf16, which PTX leaves undefined.

* wgmma: f16, bf16 and tf32 as mma with all of its k at once. f16 and f32 sums of e4m3 and e5m2 keep 13 bits below the
  unit of the largest exponent, not 25, also of all 32 products at once; an f32 result has 13 bits of fraction, cut
  towards zero, and the lower 10 are zero. Subnormal e4m3 and e5m2 have the exponent of the smallest normal one, where
  mma makes f16 of them first. A sparse a adds the products of its elements only, and has its metadata as mma.sp of the
  same k has (measured, as the rest: 287 fixtures, all equal).

The N of a wgmma is a multiple of 8 up to 256; of integers and bits 8, 16, 24 or a multiple of 16 from 32 on.
A wgmma.mma_async computes at once, which PTX permits; wait_group waits until the other three warps of the warpgroup have
committed as much. As on an H100, a block without a whole warpgroup of four warps, and one of which a warp has exited, end
with an illegal instruction, and a descriptor that leads out of the block's shared memory with an illegal address; nothing wraps
around, and reserved bits of descriptors do not count. Swizzling exchanges the 16-byte pieces of a row by bits 7 to 9 of their
address less the base offset; where a sparse product has 64 bytes of a row of 32, the second 32 follow after the leading
dimension offset (measured).

All lanes of a warp run these instructions together. What lanes that have exited would have is undefined.

## Video instructions

An H100 does not have them: NVIDIA's compiler makes others of them, for the scalar ones 64-bit arithmetic, which does not
always give what the manual says. Both engines of the software GPU return what an H100 returned (412 fixtures in
tests/ptx/op, driver 580.159.04). SIMD video instructions are as in the manual. Of the scalar ones, this differs:

* vadd, vsub, vabsdiff, vmin and vmax with .sat: an unsigned 32-bit result that is too large wraps around; only what is
  less than zero is clamped, to zero. For a byte or a half of d, what is less than zero becomes the largest value, also of
  signed types.
* vshl and vshr with .sat: the result counts modulo 2 to the 34, as signed, and is clamped to 32 bits, also for a byte or
  a half of d.
* .min and .max compare 64 bits, as unsigned ones if d is: a vadd, vsub or shift with .sat extends the sign of its lower
  32 bits first, vadd and vsub do without .sat, too. Those of vset are signed if a is.
* d.h1 takes the upper half of the result, not the lower one.
* vmad: 32-bit factors and c count as signed, whatever their types.

## What is compiled

All rows above that run do so whether they are compiled or not. Of kernels that run often, on AVX-512, AVX2 or SSE4.2:

* Compiled for all lanes and some: integers, floating point and their conversions (SSE4.2 without fma.f64), loads and stores of all
  sizes and vectors in .global, .const, .shared and .local, cp.async and its waits, atomic operations on words of .global and
  .shared, loads, stores and atomic operations by generic addresses that are all of global memory, all of the block's .shared or, but for
  atomic operations, all of .local, shuffles, votes, match, redux, barriers of a block, exits, branches, calls of functions, also of
  those with barriers and exits in them. Compiled for warps
  of which all lanes run: mma and wmma.mma of f16, bf16, tf32 and s8 or u8 with up to 16 products at once, ldmatrix, stmatrix, movmatrix, and
  wmma.load and wmma.store of matrices that lie row by row as their registers have them, and of f16 and bf16 the other way round.
* Called: the interpreter's function does it, and the warp goes on in native code, which costs 50 to 80 ns beside what the
  function takes. Textures and surfaces, mma of f64, of 4 bits and 1, of 8-bit floating point and sparse ones, m8n8k4, wgmma, wmma.load and wmma.store of f32 by columns and of
  bytes by the other order, matrix instructions of warps of which some lanes have exited, bulk copies, mbarrier, atomic operations on 16 bits, on 128, on vectors of f16 and on
  other blocks' .shared, video instructions, clocks, isspacep, mapa, alloca, malloc and printf, and cp.async with less than all of its bytes but more than none.
* Left: the interpreter runs on from there, and enters native code where it can. Accesses of pages that a worker has not seen,
  or of more pages than it keeps, generic addresses of lanes in several spaces, of other blocks' .shared, of .local in
  atomic operations, wmma.load and wmma.store, what is misaligned or outside, a barrier in a function that lanes of a warp come to apart,
  a call where 16 are open, an exit of all lanes that have called a function together while others of their warp have not, barriers of clusters, nanosleep, waits for kernels that a kernel has launched, and traps.

pvdrm doctor says whether kernels are compiled, and for what; --kernel-counts of pvdrm run, up and backend
counts what was called ("operations that are not compiled", with lines) and what left, by cause.

## Where this differs from ptxas

* The .version and .target of a module are not compared with its instructions, but for those on matrices, which need
  the .target that they have in the manual; targets of some GPUs alone, such as sm_90a and sm_100f, are refused elsewhere; and in modules of PTX before 3.2 mad.f32 without a rounding is mad.rn.f32, as ptxas has it,
  for every target. Modules of before 3.0 may declare .reg and .local
  variables outside functions, for one function that uses them. Modules without .address_size have 64-bit addresses, and may use
  registers of 32 bits for the lowest 4 GiB of .global, .const and generic addresses. A prototype may lack its ';'.
  .tex declares a texture reference, as .global .texref does.
* Variables in .global and .const must be declared outside functions.
* Variable argument lists (a parameter of type .b8[]) are refused; vprintf takes its arguments through a pointer.
* Functions that a module declares .extern and no module defines: vprintf, __assertfail, __assert_fail, malloc and free. malloc takes
  memory of the context's heap, and returns 0 when it is used up. free of an address that
  malloc did not return, or that is free already, ends the kernel with an address fault (CUDA leaves that undefined).
* PVDRM's linker adds a device runtime to programs in which kernels launch kernels. It stands on five more functions of
  the software GPU: __pvdrm_parameter_bytes, __pvdrm_kernel_attribute, __pvdrm_launch, __pvdrm_synchronize and __pvdrm_last_error.
* .pragma "pvdrm_managed ADDRESS NAME"; at module scope gives a variable with .attribute(.managed) an address that the program has mapped. The
  variable's own place then only holds what it is to begin with. Without the pragma a managed variable is one of the device's.
* .pragma "pvdrm_malloc_heap BYTES"; at module scope says how many bytes kernels can allocate with malloc, 8 MiB if it is missing; the first
  module of a context that calls malloc counts. libcuda adds it where a program has set CU_LIMIT_MALLOC_HEAP_SIZE.
* An element of an array is written as an address, [a+4]; a[1] is refused.
* Registers of 128 bits (.b128) are for mov, ld, ldu, st and atom of that type: not for loads and stores of less, and not as
  parameters of functions. Their constants are from 0 to 1<<63-1. Special registers as vectors (tid for
  all three of its parts) are refused.
* atom and red on vectors are operations on one element after another, as PTX permits.
* Numbers must fit in 64 bits, the table of lop3 in 8.
* Bulk copies copy at once, too, and prefetches look only at alignments and maps. Tensor maps are an encoding of our own, see
  gpu/tensormap, which has what an H100 does with boxes, borders, swizzles and columns of pixels. Refused are maps for columns of
  interleaved tensors and what CUDA 12.8 and sm_100 added (gather4, scatter4, im2col::w, types of 4 and 6 bits). A size of a bulk
  copy counts by its bits 4 to 19.
* cp.async copies at once, as PTX permits; what its groups wait for is there already. griddepcontrol and setmaxnreg
  do nothing: grids run one after another, and registers are not shared. createpolicy gives a value that is only a hint.
* Cache hints, eviction priorities, prefetch sizes and .mmio change no result; membar.proxy and fence.proxy are fences.
* Derived instructions (f32x2, 32-byte loads and stores, numbers of 4 and 6 bits): a pair of f32 is computed as two f32,
  and mul and add of pairs are not joined to fma. NaN becomes the largest number of the small formats.
* A cluster runs on one multiprocessor, the warps of its blocks in turn. Addresses in .shared are an H100's: the block of rank r
  has those from r<<24 on, so that an address names the same memory in all blocks of a cluster; variables begin at 0 there, not at
  1,024. A load or store of .shared alone in another block is an illegal instruction, as on an H100; one of a block that has ended,
  or that the cluster does not have, is an address fault (LAUNCH_FAILED on an H100). A thread that waits at the barrier of its
  cluster without having arrived goes on, as on an H100. st.async and red.async access at once.
* Textures and surfaces are objects: an object is the address of a descriptor in device memory, see gpu/texture. A variable
  of type .texref or .surfref has eight bytes, which hold the object that the program has bound to it; without one the
  kernel ends with an address fault. As parameters, in arrays and with initialisers they are refused, and so are samplers.
* Offsets of tex, tex.level and tld4 are vectors in braces, of which four bits count, as on an H100. With tex.grad, and depths to compare
  with, they are refused.
* Fetches return what an H100 returned, bit for bit, see gpu/texture, but for the level of detail of some gradients in
  three dimensions, which differs by 1/256, and of infinite ones on cubes. The H100's driver
  loads no txq and suq but of width, height and depth, and sust.p of .b32 alone; here the others follow PTX's text. A bad handle,
  and an object of another kind than the instruction, end the kernel; an H100 goes on with handle 0 and with other kinds.
* tex.grad on a texture with an anisotropic filter ends the kernel with an instruction fault.
* No shared memory is reserved: %%reserved_smem_offset_begin and the others are 0 (an H200 reserves 1 KiB). Blocks get shared
  memory in units of 128 bytes: what lies behind what a kernel asked for, within a unit, can be used, as on an H100.

## Limits

| what | at most |
| --- | --- |
| source | %d MiB |
| statements of all functions | %d |
| operands | %d |
| variables, ranges of registers and parameters | %d |
| directives at module scope | %d |
| elements of initialisers | %d |
| nesting of braces in bodies | %d |
| nesting of initialisers and expressions | %d |
| complaints before giving up | %d |
`
