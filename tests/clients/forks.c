// Forks before and after the first call of the driver API, and in its midst. The
// library is loaded all the time.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "kernels.h"

// compute is a whole program: the result is wrong if anything of it is missing.
static void compute(void)
{
	enum { N = 1000 };
	static float a[N], b[N], c[N];
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction add;
	CUdeviceptr da, db, dc;
	int n = N;
	void *args[] = {&da, &db, &dc, &n};

	for (int i = 0; i < N; i++)
		a[i] = (float)i, b[i] = (float)getpid();
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&add, mod, "vector_add"));
	CHECK(cuMemAlloc(&da, sizeof a));
	CHECK(cuMemAlloc(&db, sizeof b));
	CHECK(cuMemAlloc(&dc, sizeof c));
	CHECK(cuMemcpyHtoD(da, a, sizeof a));
	CHECK(cuMemcpyHtoD(db, b, sizeof b));
	CHECK(cuLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	CHECK(cuMemcpyDtoH(c, dc, sizeof c));
	for (int i = 0; i < N; i++)
		REQUIRE(c[i] == a[i] + b[i]);
	CHECK(cuCtxDestroy(ctx));
}

static pid_t start(void (*run)(void))
{
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		alarm(120); // a child that hangs is killed, and fails
		run();
		exit(0);
	}
	return child;
}

static void finish(pid_t child)
{
	int status = -1;
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static void *initialize(void *unused)
{
	CHECK(cuInit(0));
	return unused;
}

// A thread makes the first call while its process forks: the child has a driver
// or is told that it has none.
static void in_the_midst(void)
{
	pthread_t t;
	int status = -1;
	REQUIRE(!pthread_create(&t, NULL, initialize, NULL));
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		alarm(120);
		CUresult r = cuInit(0);
		_exit(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	}
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	REQUIRE(!pthread_join(t, NULL));
}

static void without(void)
{
	int version;
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDriverGetVersion(&version));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
}

static void generations(void)
{
	pid_t child = start(compute);
	compute();
	finish(child);
	finish(start(without));
}

int main(void)
{
	for (int i = 0; i < 8; i++)
		finish(start(in_the_midst));
	pid_t first = start(compute), second = start(generations);
	compute();
	finish(first);
	finish(second);
	finish(start(without));
	compute(); // the parent has lost nothing
	puts("forks: PASS");
	return 0;
}
