// What llm.c's fp32 programs use of the CUDA runtime API and of CUDA C++, declared from their public
// documentation, for clang without a CUDA SDK. The runtime is PVDRM's libcudart.
#ifndef LLMC_CUDA_RUNTIME_H
#define LLMC_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct dim3 {
	unsigned x, y, z;
	__host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
	unsigned x, y, z;
};
#include <__clang_cuda_builtin_vars.h>

struct alignas(16) float4 {
	float x, y, z, w;
};
static inline __host__ __device__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
enum { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
struct cudaDeviceProp {
	char name[256];
	char rest[4096];
};

extern "C" {
cudaError_t cudaMalloc(void **p, size_t size);
cudaError_t cudaMallocHost(void **p, size_t size);
cudaError_t cudaFree(void *p);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemset(void *p, int value, size_t size);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
}

// Mathematics by the GPU's approximations, as nvcc's -use_fast_math has it.
static inline __device__ float expf(float x) { return __nvvm_ex2_approx_f(x * 1.4426950408889634f); }
static inline __device__ float logf(float x) { return __nvvm_lg2_approx_f(x) * 0.6931471805599453f; }
static inline __device__ float tanhf(float x) { return 1 - 2 / (expf(2 * x) + 1); }
static inline __device__ float coshf(float x) { return (expf(x) + expf(-x)) / 2; }
static inline __device__ float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
static inline __device__ float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
static inline __device__ float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }

static inline __host__ __device__ size_t max(size_t a, size_t b) { return a > b ? a : b; }
static inline __device__ float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
static inline __device__ float __ldcs(const float *p) { return *p; }
static inline __device__ void __stcs(float *p, float v) { *p = v; }

#endif
