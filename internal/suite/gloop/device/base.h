/*
 * What the programs of GLoop need of CUDA: clang compiles them without a CUDA SDK.
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

FN u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
FN u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
FN u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
FN u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
FN void barrier() { __syncthreads(); }

FN u32 least(u32 a, u32 b) { return a < b ? a : b; }

FN u32 atomicPlus(u32 *p, u32 x) { return __sync_fetch_and_add(p, x); }
FN u64 atomicPlus(u64 *p, u64 x) { return __sync_fetch_and_add(p, x); }
FN u32 atomicLeast(u32 *p, u32 x) { return __sync_fetch_and_umin(p, x); }

/* 2 to the power of x, about. */
FN float exp2About(float x) { return __nvvm_ex2_approx_f(x); }

/*
 * Say SHARED after the declaration of a variable in shared memory: clang takes one whose
 * address goes nowhere for one that no other thread changes, even across a barrier. This
 * lets the address go somewhere; it makes no instruction.
 */
#define SHARED(variable) __asm__ volatile("" : : "l"(&(variable)) : "memory")
