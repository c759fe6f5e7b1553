// Kernels that wait for kernels that they have launched (CUDA 11; 12 with CUDA_FORCE_CDP1_IF_SUPPORTED).
#include "check.h"

#if CUDART_VERSION < 13000
__global__ void add(int *p, int v) { atomicAdd(p, v); }

__global__ void parent(int *p, int *seen)
{
	__shared__ int got;
	if (threadIdx.x == 0) {
		add<<<4, 32>>>(p + blockIdx.x, 1);
		int e = cudaDeviceSynchronize();
		got = e ? -e : *(volatile int *)(p + blockIdx.x);
	}
	__syncthreads();
	if (threadIdx.x == 63)
		seen[blockIdx.x] = got;
}

__global__ void nested(int *log, int depth)
{
	if (depth < 4)
		nested<<<1, 1>>>(log, depth + 1);
	log[depth] = cudaDeviceSynchronize();
}

int main()
{
	int *p, h[40];
	OK(cudaMalloc(&p, sizeof h));
	OK(cudaMemset(p, 0, sizeof h));
	parent<<<20, 64>>>(p, p + 20);
	OK(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 20; i++)
		REQUIRE(h[i] == 128 && h[20 + i] == 128);
	nested<<<1, 1>>>(p, 0);
	OK(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost));
	REQUIRE(h[0] == 0 && h[1] == 0); // two levels, unless a program asks for more
	for (int i = 2; i < 4; i++)
		REQUIRE(h[i] == cudaErrorSyncDepthExceeded);
	puts("waiting: PASS");
	return 0;
}
#else
int main()
{
	puts("waiting: PASS"); // CUDA 13 has no such kernels
	return 0;
}
#endif
