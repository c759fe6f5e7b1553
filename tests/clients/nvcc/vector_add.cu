#include "check.h"

__global__ void add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	const int n = 1000;
	float h[n], *a, *b, *c;
	for (int i = 0; i < n; i++)
		h[i] = i;
	OK(cudaMalloc(&a, sizeof h));
	OK(cudaMalloc(&b, sizeof h));
	OK(cudaMalloc(&c, sizeof h));
	OK(cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice));
	OK(cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice));
	add<<<(n + 255) / 256, 256>>>(a, b, c, n);
	OK(cudaGetLastError());
	OK(cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		REQUIRE(h[i] == 2 * i);
	OK(cudaFree(a));
	OK(cudaFree(b));
	OK(cudaFree(c));
	puts("vector_add: PASS");
	return 0;
}
