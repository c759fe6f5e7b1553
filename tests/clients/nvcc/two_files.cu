// A kernel in another file: each has a fatbin of its own.
#include "check.h"

void launch_square(int *p, int n); // two_files_kernel.cu

__global__ void increase(int *p) { p[threadIdx.x]++; }

int main()
{
	int h[32], *d;
	for (int i = 0; i < 32; i++)
		h[i] = i;
	OK(cudaMalloc(&d, sizeof h));
	OK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice));
	launch_square(d, 32);
	increase<<<1, 32>>>(d);
	OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(h[i] == i * i + 1);
	puts("two_files: PASS");
	return 0;
}
