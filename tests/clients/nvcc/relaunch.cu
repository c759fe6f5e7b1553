// A graph that launches itself until there is no more to do, and another one each time.
#include "check.h"

#if CUDART_VERSION >= 12000
__device__ int left, notes[64], count;

__global__ void note(int what) { notes[count++] = what; }

__global__ void step(cudaGraphExec_t each)
{
	int at = count++;
	__threadfence(); // what is launched may run at once
	notes[at] = cudaGraphLaunch(each, cudaStreamGraphFireAndForget);
	if (--left > 0)
		cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

int main()
{
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t each, loop;
	int n = 5, h[64];
	OK(cudaStreamCreate(&s));
	OK(cudaMemcpyToSymbol(left, &n, sizeof n));
	OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	note<<<1, 1, 0, s>>>(7);
	OK(cudaStreamEndCapture(s, &g));
	OK(cudaGraphInstantiate(&each, g, cudaGraphInstantiateFlagDeviceLaunch));
	OK(cudaGraphUpload(each, s));
	OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	step<<<1, 1, 0, s>>>(each);
	OK(cudaStreamEndCapture(s, &g));
	OK(cudaGraphInstantiate(&loop, g, cudaGraphInstantiateFlagDeviceLaunch));
	OK(cudaGraphLaunch(loop, s));
	OK(cudaStreamSynchronize(s));
	OK(cudaMemcpyFromSymbol(&n, count, sizeof n));
	OK(cudaMemcpyFromSymbol(h, notes, sizeof h));
	REQUIRE(n == 10);
	for (int i = 0; i < n; i++)
		REQUIRE(h[i] == (i % 2 ? 7 : 0));
	puts("relaunch: PASS");
	return 0;
}
#else
int main()
{
	puts("relaunch: PASS"); // CUDA 11 has no such graphs
	return 0;
}
#endif
