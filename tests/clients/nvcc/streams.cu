#include "check.h"

__global__ void add(int *p, int what) { atomicAdd(&p[threadIdx.x], what); }

static void CUDART_CB done(void *flag) { *(int *)flag = 1; }

int main()
{
	cudaStream_t s[4];
	cudaEvent_t begin, end;
	int *d, *h, called = 0;
	float ms = -1;
	OK(cudaMalloc(&d, 256));
	OK(cudaMallocHost(&h, 256));
	OK(cudaMemset(d, 0, 256));
	OK(cudaEventCreate(&begin));
	OK(cudaEventCreate(&end));
	OK(cudaEventRecord(begin));
	for (int i = 0; i < 4; i++) {
		OK(cudaStreamCreate(&s[i]));
		add<<<1, 64, 0, s[i]>>>(d, i + 1);
	}
	OK(cudaLaunchHostFunc(s[3], done, &called));
	for (int i = 0; i < 4; i++)
		OK(cudaStreamSynchronize(s[i]));
	OK(cudaEventRecord(end));
	OK(cudaEventSynchronize(end));
	OK(cudaEventElapsedTime(&ms, begin, end));
	OK(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s[0]));
	OK(cudaStreamSynchronize(s[0]));
	for (int i = 0; i < 64; i++)
		REQUIRE(h[i] == 10);
	REQUIRE(ms >= 0 && called);
	puts("streams: PASS");
	return 0;
}
