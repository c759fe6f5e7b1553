#include "check.h"

__constant__ int factors[4];
__device__ int sum;

__global__ void multiply(int *p) { atomicAdd(&sum, p[threadIdx.x] *= factors[threadIdx.x & 3]); }

int main()
{
	int f[4] = {1, 2, 3, 4}, h[8] = {1, 1, 1, 1, 2, 2, 2, 2}, *d, total = 0;
	size_t bytes = 0;
	OK(cudaMemcpyToSymbol(factors, f, sizeof f));
	OK(cudaMemcpyToSymbol(sum, &total, sizeof total));
	OK(cudaGetSymbolSize(&bytes, factors));
	OK(cudaMalloc(&d, sizeof h));
	OK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice));
	multiply<<<1, 8>>>(d);
	OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
	OK(cudaMemcpyFromSymbol(&total, sum, sizeof total));
	REQUIRE(bytes == 16 && h[3] == 4 && h[7] == 8 && total == 30);
	puts("constant: PASS");
	return 0;
}
