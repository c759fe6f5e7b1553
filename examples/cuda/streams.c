// Streams, events, pinned memory, copies of rows, functions of the host.
#include "driver.h"
#include "kernels.h"

enum { N = 1 << 16, STREAMS = 3 };

static int called;
static CUresult inside;

static void host_function(void *data)
{
	called += *(int *)data;
	inside = cuStreamSynchronize(NULL); // not allowed here
}

static void rows(void)
{
	enum { W = 100, H = 37 };
	static unsigned char in[H][W + 5], out[H][W + 9];
	CUdeviceptr d;
	size_t pitch;

	for (int i = 0; i < H; i++)
		for (int k = 0; k < W; k++)
			in[i][k] = (unsigned char)(i * 31 + k);
	CHECK(cuMemAllocPitch(&d, &pitch, W, H, 4));
	REQUIRE(pitch >= W);
	CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = sizeof in[0],
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d, .dstPitch = pitch, .WidthInBytes = W, .Height = H};
	CHECK(cuMemcpy2D(&to));
	// Back without the first row and column.
	CUDA_MEMCPY2D back = {.srcXInBytes = 1, .srcY = 1, .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d, .srcPitch = pitch,
			      .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out, .dstPitch = sizeof out[0], .WidthInBytes = W - 1, .Height = H - 1};
	CHECK(cuMemcpy2D(&back));
	for (int i = 0; i < H - 1; i++)
		REQUIRE(memcmp(out[i], &in[i + 1][1], W - 1) == 0 && out[i][W] == 0);
	CHECK(cuMemFree(d));
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction scale;
	CUstream s[STREAMS];
	CUevent start, end, mark;
	CUdeviceptr d[STREAMS], mapped;
	float *h[STREAMS], *plain = malloc(N * sizeof(float)), ms, by = 3;
	int n = N, one = 1;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&scale, mod, "scale"));
	CHECK(cuEventCreate(&start, 0));
	CHECK(cuEventCreate(&end, 0));
	CHECK(cuEventCreate(&mark, 2));
	CHECK(cuEventRecord(start, NULL));
	for (int i = 0; i < STREAMS; i++) {
		CHECK(cuStreamCreate(&s[i], i == 0 ? CU_STREAM_NON_BLOCKING : 0));
		CHECK(cuMemAllocHost((void **)&h[i], N * sizeof(float)));
		CHECK(cuMemAlloc(&d[i], N * sizeof(float)));
		for (int k = 0; k < N; k++)
			h[i][k] = (float)(k + i);
		void *args[] = {&d[i], &by, &n};
		CHECK(cuMemcpyHtoDAsync(d[i], h[i], N * sizeof(float), s[i]));
		CHECK(cuLaunchKernel(scale, N / 256, 1, 1, 256, 1, 1, 0, s[i], args, NULL));
	}
	CHECK(cuEventRecord(mark, s[0]));
	CHECK(cuStreamWaitEvent(s[1], mark, 0));
	// Memory that is not pinned, on a stream that does not wait for the default one.
	CHECK(cuMemcpyDtoHAsync(plain, d[0], N * sizeof(float), s[0]));
	CHECK(cuStreamSynchronize(s[0]));
	for (int k = 0; k < N; k++)
		REQUIRE(plain[k] == 3 * (float)k);
	for (int i = 0; i < STREAMS; i++)
		CHECK(cuMemcpyDtoHAsync(h[i], d[i], N * sizeof(float), s[i]));
	CHECK(cuLaunchHostFunc(s[1], host_function, &one));
	CHECK(cuLaunchHostFunc(s[1], host_function, &one));
	CHECK(cuStreamSynchronize(s[1]));
	REQUIRE(called == 2 && inside == CUDA_ERROR_NOT_PERMITTED);
	CHECK(cuEventRecord(end, NULL));
	CHECK(cuEventSynchronize(end));
	CHECK(cuEventElapsedTime(&ms, start, end));
	REQUIRE(ms > 0);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, start, mark));
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamQuery(s[2]));
	for (int i = 0; i < STREAMS; i++)
		for (int k = 0; k < N; k++)
			REQUIRE(h[i][k] == 3 * (float)(k + i));

	// A kernel in pinned memory, on the stream of this thread.
	CHECK(cuMemHostGetDevicePointer(&mapped, h[0] + 16, 0));
	int few = 16;
	void *args[] = {&mapped, &by, &few};
	CHECK(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, CU_STREAM_PER_THREAD, args, NULL));
	CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	REQUIRE(h[0][15] == 45 && h[0][16] == 144 && h[0][31] == 279 && h[0][32] == 96);

	// Registered memory serves copies.
	CHECK(cuMemHostRegister(plain, N * sizeof(float), 0));
	CHECK(cuMemcpyHtoDAsync(d[2], plain, N * sizeof(float), s[2]));
	CHECK(cuMemHostUnregister(plain));
	rows();
	for (int i = 0; i < STREAMS; i++) {
		CHECK(cuStreamDestroy(s[i]));
		CHECK(cuMemFreeHost(h[i]));
	}
	CHECK(cuEventDestroy(start));
	CHECK(cuEventDestroy(end));
	CHECK(cuEventDestroy(mark));
	CHECK(cuCtxDestroy(ctx));
	puts("streams: PASS");
	return 0;
}
