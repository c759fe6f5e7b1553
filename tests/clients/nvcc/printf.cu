#include "check.h"

__global__ void hello(double x) { printf("hello %d of %s, %.2f\n", threadIdx.x, "block", x); }

int main()
{
	hello<<<1, 2>>>(1.25);
	OK(cudaDeviceSynchronize());
	puts("printf: PASS");
	return 0;
}
