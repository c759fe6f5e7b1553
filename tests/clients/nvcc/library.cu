// A shared library with the runtime in it: tests/cudart/static/loads.c loads it.
#include "check.h"

__global__ void fill(int *p, int what) { p[threadIdx.x] = what; }

extern "C" int library_main()
{
	int h[16], *d;
	OK(cudaMalloc(&d, sizeof h));
	fill<<<1, 16>>>(d, 7);
	OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 16; i++)
		REQUIRE(h[i] == 7);
	OK(cudaFree(d));
	puts("library: PASS");
	return 0;
}
