// What GLoop needs of a compiler: clang without a CUDA SDK (-nocudainc -nocudalib), clang with one,
// or nvcc. Everything else is plain C++14 and PTX of ISA 6.3.
#ifndef GLOOP_PLATFORM_H
#define GLOOP_PLATFORM_H

#include "gloop_abi.h"

#ifndef __CUDACC__
#ifdef __CUDA__
#define __CUDACC__ 1
#endif
#endif

#if defined(__clang__) && !defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__)
// Without an SDK: the attributes, and threadIdx and its kind of clang itself.
#ifndef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#include <__clang_cuda_builtin_vars.h>
#define GLOOP_SYNC() __syncthreads()
#define GLOOP_SYNC_OR(p) __nvvm_bar0_or(p)
#else
#define GLOOP_SYNC() __syncthreads()
#define GLOOP_SYNC_OR(p) __syncthreads_or(p)
#endif

#define GLOOP_INLINE static __device__ __attribute__((always_inline)) inline

#define GLOOP_METHOD __device__ __attribute__((always_inline)) inline

namespace gloop {
namespace platform {

// now is the clock of the GPU.
GLOOP_INLINE u64 now() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

// doze gives the processor of the GPU away for about so many nanoseconds.
GLOOP_INLINE void doze(u32 ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }

// fence orders what was written before it, for the host too.
GLOOP_INLINE void fence() { asm volatile("membar.sys;" ::: "memory"); }

// load and store reach past caches to memory that the host writes or reads.
GLOOP_INLINE u64 load(const u64 *p) {
    u64 v;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
GLOOP_INLINE u32 load(const u32 *p) {
    u32 v;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
GLOOP_INLINE void store(u64 *p, u64 v) { asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }

// add adds atomically, for all blocks of the GPU, and returns what was there.
GLOOP_INLINE u64 add(u64 *p, u64 v) {
    u64 old;
    asm volatile("atom.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
GLOOP_INLINE u32 add(u32 *p, u32 v) {
    u32 old;
    asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

// lowest is the number of the lowest bit that is set.
GLOOP_INLINE u32 lowest(u64 bits) {
    u64 turned;
    u32 n;
    asm("brev.b64 %0, %1;" : "=l"(turned) : "l"(bits));
    asm("clz.b64 %0, %1;" : "=r"(n) : "l"(turned));
    return n;
}

GLOOP_INLINE u32 physicalBlock() {
    u32 v;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(v));
    return v;
}

// threads is the number of threads of a block, thread the number of this one.
GLOOP_INLINE u32 threads() { return blockDim.x * blockDim.y * blockDim.z; }
GLOOP_INLINE u32 thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

GLOOP_INLINE void copy(void *to, const void *from, u32 n) {
#ifdef __clang__
    __builtin_memcpy(to, from, n);
#else
    memcpy(to, from, n);
#endif
}

} // namespace platform
} // namespace gloop

#endif
