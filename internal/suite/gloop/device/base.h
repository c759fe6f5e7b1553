/*
 * What the programs of GLoop need of CUDA: clang compiles them without a CUDA SDK. nvcc does, too; its results
 * are the reference's with -fmad=false.
 */
#pragma once

#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FN static inline __device__ __attribute__((always_inline))
#define KERNEL extern "C" __global__ void

/*
 * Says that a pointer is one to global memory. Compilers know that of what a kernel gets, and not of what
 * a callback has captured.
 */
template <class T> FN T *global(T *p) {
#ifdef __clang__
	u64 at; /* of two casts that cancel each other nothing would be left */
	asm("cvta.to.global.u64 %0, %1;" : "=l"(at) : "l"(p));
	return (T *)(__attribute__((address_space(1))) T *)at;
#else
	__builtin_assume(__isGlobal(p));
	return p;
#endif
}

#ifdef __clang__
FN u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
FN u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
FN u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
FN u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }

FN u32 atomicPlus(u32 *p, u32 x) { return __sync_fetch_and_add(p, x); }
FN u64 atomicPlus(u64 *p, u64 x) { return __sync_fetch_and_add(p, x); }
FN u32 atomicLeast(u32 *p, u32 x) { return __sync_fetch_and_umin(p, x); }

FN u32 shuffleDown(u32 x, int by) { return (u32)__nvvm_shfl_sync_down_i32(-1, (int)x, by, 31); }

/* 2 to the power of x, about. */
FN float exp2About(float x) { return __nvvm_ex2_approx_f(x); }
#else
FN u32 thread() { return threadIdx.x; }
FN u32 threads() { return blockDim.x; }
FN u32 block() { return blockIdx.x; }
FN u32 blocks() { return gridDim.x; }

FN u32 atomicPlus(u32 *p, u32 x) { return atomicAdd(p, x); }
FN u64 atomicPlus(u64 *p, u64 x) { return atomicAdd(p, x); }
FN u32 atomicLeast(u32 *p, u32 x) { return atomicMin(p, x); }

FN u32 shuffleDown(u32 x, int by) { return __shfl_down_sync(0xffffffffu, x, by); }

FN float exp2About(float x) {
	float y;
	asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

FN void barrier() { __syncthreads(); }

/*
 * Copies n bytes, and up to 15 more, with all threads: from memory of the host, which a card reads across the bus, to
 * its own. Both are aligned to 16 bytes.
 */
struct alignas(16) Quad { u32 word[4]; };

FN void fetch(void *to, const void *from, u32 n) {
	Quad *out = global((Quad *)to);
	const Quad *in = global((const Quad *)from);
	for (u32 i = thread(); i < (n + 15) / 16; i += threads())
		out[i] = in[i];
	barrier();
}

FN u32 least(u32 a, u32 b) { return a < b ? a : b; }

/*
 * Say SHARED after the declaration of a variable in shared memory: clang takes one whose
 * address goes nowhere for one that no other thread changes, even across a barrier. This
 * lets the address go somewhere; it makes no instruction.
 */
#define SHARED(variable) __asm__ volatile("" : : "l"(&(variable)) : "memory")
