#include "check.h"

template <typename T> __global__ void twice(T *p, int n)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		p[i] *= 2;
}

int main()
{
	const int n = 5000;
	double *p;
	cudaPointerAttributes a;
	OK(cudaMallocManaged(&p, n * sizeof *p));
	for (int i = 0; i < n; i++)
		p[i] = i;
	twice<<<4, 128>>>(p, n);
	OK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		REQUIRE(p[i] == 2.0 * i);
	OK(cudaPointerGetAttributes(&a, p));
	REQUIRE(a.type == cudaMemoryTypeManaged && a.devicePointer == p);
	OK(cudaFree(p));
	puts("managed: PASS");
	return 0;
}
