// Threads that share a context, and threads with contexts of their own.
#include <pthread.h>

#include "driver.h"
#include "kernels.h"

enum { THREADS = 6, ROUNDS = 5, N = 4096 };

static CUdevice dev;
static CUcontext shared;
static CUfunction add;

static void *work(void *arg)
{
	int id = (int)(size_t)arg, n = N;
	CUcontext own = NULL, now;
	CUfunction f = add;
	CUmodule mod;

	CHECK(cuCtxGetCurrent(&now));
	REQUIRE(now == NULL); // a new thread has none
	CHECK(cuCtxSetCurrent(shared));
	if (id % 2) {
		CHECK(cuCtxCreate(&own, 0, dev));
		CHECK(cuModuleLoadData(&mod, vector_ptx));
		CHECK(cuModuleGetFunction(&f, mod, "vector_add"));
	}
	for (int round = 0; round < ROUNDS; round++) {
		float a[N], b[N], c[N];
		CUdeviceptr d[3];
		for (int i = 0; i < N; i++) {
			a[i] = (float)(i + id);
			b[i] = (float)(round * 1000);
		}
		for (int i = 0; i < 3; i++)
			CHECK(cuMemAlloc(&d[i], sizeof a));
		CHECK(cuMemcpyHtoD(d[0], a, sizeof a));
		CHECK(cuMemcpyHtoD(d[1], b, sizeof b));
		void *args[] = {&d[0], &d[1], &d[2], &n};
		CHECK(cuLaunchKernel(f, N / 128, 1, 1, 128, 1, 1, 0, CU_STREAM_PER_THREAD, args, NULL));
		CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		CHECK(cuMemcpyDtoH(c, d[2], sizeof c));
		for (int i = 0; i < N; i++)
			REQUIRE(c[i] == a[i] + b[i]);
		for (int i = 0; i < 3; i++)
			CHECK(cuMemFree(d[i]));
	}
	if (own) {
		CHECK(cuCtxPopCurrent(&now));
		REQUIRE(now == own);
		CHECK(cuCtxGetCurrent(&now));
		REQUIRE(now == shared);
		CHECK(cuCtxDestroy(own));
		EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(own));
	}
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];
	CUmodule mod;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&shared, dev));
	CHECK(cuCtxPushCurrent(shared));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&add, mod, "vector_add"));
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&t[i], NULL, work, (void *)(size_t)i) == 0);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(t[i], NULL) == 0);
	CHECK(cuDevicePrimaryCtxRelease(dev));
	puts("threads: PASS");
	return 0;
}
