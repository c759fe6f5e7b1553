// Kernels that ask the device runtime, and use its copies, fills, streams and events.
#include "check.h"

__device__ int failed;
__device__ char box[512], other[512];

#define ASK(want, call)                                                                                                       \
	do {                                                                                                                  \
		int e_ = (int)(call);                                                                                         \
		if (e_ != want) {                                                                                             \
			printf("line %d: %d, not %d\n", __LINE__, e_, want);                                                  \
			failed = 1;                                                                                           \
		}                                                                                                             \
		cudaGetLastError();                                                                                           \
	} while (0)

__global__ void __launch_bounds__(256) add(int *p, int n)
{
	__shared__ int s[100];
	s[threadIdx.x % 100] = n;
	__syncthreads();
	atomicAdd(p, s[0]);
}

__global__ void ask(int *p)
{
	cudaFuncAttributes a;
	int blocks = 7;
	ASK(cudaSuccess, cudaFuncGetAttributes(&a, (const void *)add));
	ASK(1, a.sharedSizeBytes == 400 && a.maxThreadsPerBlock == 256 && a.numRegs > 0 && a.binaryVersion >= 50);
	ASK(cudaErrorInvalidValue, cudaFuncGetAttributes(&a, NULL));
	ASK(cudaSuccess, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)add, 128, 0));
	ASK(1, blocks > 0);
	ASK(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)add, 0, 0));
	ASK(0, blocks);

	cudaStream_t stream;
	cudaEvent_t event;
	ASK(cudaSuccess, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	ASK(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
	ASK(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 0));
	ASK(cudaSuccess, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	add<<<3, 1, 0, stream>>>(p, 10);
	ASK(cudaSuccess, cudaGetLastError());
	ASK(cudaSuccess, cudaEventRecord(event, stream));
	ASK(cudaSuccess, cudaStreamWaitEvent(0, event, 0));
	add<<<1, 257>>>(p, 1000);
	ASK(cudaErrorInvalidConfiguration, cudaGetLastError());
	ASK(cudaSuccess, cudaMemset2DAsync(box, 64, 0x101, 16, 3, 0));
	ASK(cudaErrorInvalidValue, cudaMemset2DAsync(box, 8, 1, 16, 3, 0));
	ASK(cudaSuccess, cudaMemcpy2DAsync(other, 32, box, 64, 16, 3, cudaMemcpyDeviceToDevice, 0));
	ASK(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(other, 8, box, 64, 16, 3, cudaMemcpyDeviceToDevice, 0));
	ASK(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DAsync(other, 32, box, 64, 16, 3, cudaMemcpyHostToDevice, 0));
	cudaMemcpy3DParms c = {};
	c.srcPtr.ptr = other, c.srcPtr.pitch = 32, c.srcPtr.ysize = 3;
	c.dstPtr.ptr = box + 256, c.dstPtr.pitch = 16, c.dstPtr.ysize = 3;
	c.extent.width = 16, c.extent.height = 3, c.extent.depth = 1, c.kind = cudaMemcpyDeviceToDevice;
	ASK(cudaSuccess, cudaMemcpy3DAsync(&c, 0));
	cudaPitchedPtr at;
	cudaExtent extent;
	at.ptr = box + 400, at.pitch = 8, at.xsize = 8, at.ysize = 2;
	extent.width = 3, extent.height = 2, extent.depth = 2;
	ASK(cudaSuccess, cudaMemset3DAsync(at, 2, extent, 0));
	extent.height = 3;
	ASK(cudaErrorInvalidValue, cudaMemset3DAsync(at, 2, extent, 0));
	ASK(cudaSuccess, cudaEventDestroy(event));
	ASK(cudaSuccess, cudaStreamDestroy(stream));
	ASK(cudaErrorInvalidValue, cudaStreamDestroy(0));
}

int main()
{
	int *p, n = 0, wrong = 1;
	char b[512];
	OK(cudaMalloc(&p, sizeof n));
	OK(cudaMemset(p, 0, sizeof n));
	ask<<<1, 1>>>(p);
	OK(cudaDeviceSynchronize());
	OK(cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost));
	OK(cudaMemcpyFromSymbol(&wrong, failed, sizeof wrong));
	OK(cudaMemcpyFromSymbol(b, box, sizeof b));
	REQUIRE(n == 30 && !wrong);
	for (int i = 0; i < 512; i++) {
		int want = i < 192 ? i % 64 < 16 : i < 256 ? 0 : i < 304 ? 1 : i < 400 ? 0 : i < 432 && i % 8 < 3 ? 2 : 0;
		REQUIRE(b[i] == want);
	}
	puts("children: PASS");
	return 0;
}
