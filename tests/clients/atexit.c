// Calls the driver API when the program ends: in a function of atexit, in a
// destructor, and in the destructor of a thread's data. None may crash or hang.
#include <pthread.h>

#include "driver.h"

static CUcontext ctx;
static CUdeviceptr d;
static pthread_key_t key;

static int fine(CUresult r) { return r == CUDA_SUCCESS || r == 4 /* CUDA_ERROR_DEINITIALIZED */; }

static void end_of_thread(void *p)
{
	CUresult r = cuMemcpyHtoD(d, p, 4);
	REQUIRE(fine(r) || r == CUDA_ERROR_INVALID_CONTEXT); // what the library has of a thread may be gone
}

static void at_exit(void)
{
	char back[4] = "";
	REQUIRE(fine(cuMemcpyHtoD(d, "that", 4)));
	CUresult r = cuMemcpyDtoH(back, d, sizeof back);
	REQUIRE(fine(r));
	REQUIRE(r != CUDA_SUCCESS || back[0] == 't');
	REQUIRE(fine(cuMemFree(d)));
	REQUIRE(fine(cuCtxDestroy(ctx)));
}

__attribute__((destructor)) static void at_the_very_end(void)
{
	CUdevice dev;
	REQUIRE(fine(cuDeviceGet(&dev, 0)));
	REQUIRE(cuCtxSynchronize() != CUDA_SUCCESS); // the context is gone
	puts("atexit: PASS");
}

static void *thread(void *arg)
{
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(pthread_setspecific(key, arg) ? 1 : CUDA_SUCCESS);
	return NULL;
}

int main(void)
{
	static char text[] = "that";
	CUdevice dev;
	pthread_t t;

	atexit(at_exit); // before the library has one of its own
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&d, 4));
	REQUIRE(!pthread_key_create(&key, end_of_thread));
	REQUIRE(!pthread_create(&t, NULL, thread, text));
	REQUIRE(!pthread_join(t, NULL));
	return 0;
}
