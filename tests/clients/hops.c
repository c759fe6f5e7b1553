// Two streams that wait for each other's events in turns: what a hop from one to the other takes, while nobody waits for it
// and when the program waits for every second one, as for a small collective. The kernels have to run in order.
#define _GNU_SOURCE
#include <time.h>

#include "driver.h"

enum { HOPS = 200, ROUNDS = 3, NO_TIMING = 2 };

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 i)\n{\n"
	".reg .u64 %a;\n.reg .u32 %r<3>;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %r0, [i];\nld.global.u32 %r1, [%a];\n"
	"mad.lo.u32 %r2, %r1, 3, %r0;\nst.global.u32 [%a], %r2;\nret;\n}\n";

static CUstream stream[2];
static CUevent event[2];
static CUfunction step;
static CUdeviceptr word;
static unsigned expected;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void run(unsigned i, CUstream on)
{
	void *params[] = {&word, &i};
	CHECK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, on, params, NULL));
	expected = expected * 3 + i;
}

// hop runs a kernel on a stream, for which the other one waits.
static void hop(unsigned i)
{
	unsigned from = i % 2;
	run(i, stream[from]);
	CHECK(cuEventRecord(event[from], stream[from]));
	CHECK(cuStreamWaitEvent(stream[!from], event[from], 0));
}

static void report(const char *what, double since)
{
	unsigned got;
	double took = now() - since;
	CHECK(cuMemcpyDtoH(&got, word, sizeof got));
	REQUIRE(got == expected);
	fprintf(stderr, "%s: %.2f us each\n", what, took / HOPS);
}

static void measure(void)
{
	double since = now();
	for (unsigned i = 0; i < HOPS; i++)
		run(i, stream[0]);
	CHECK(cuStreamSynchronize(stream[0]));
	report("launches on one stream", since);

	since = now();
	for (unsigned i = 0; i < HOPS; i++)
		hop(i);
	CHECK(cuCtxSynchronize());
	report("hops", since);

	since = now();
	for (unsigned i = 0; i < HOPS; i++) {
		hop(i);
		if (i % 2)
			CHECK(cuStreamSynchronize(stream[0]));
	}
	report("hops, every second one waited for", since);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&step, mod, "step"));
	CHECK(cuMemAlloc(&word, 4));
	CHECK(cuMemsetD32(word, 0, 1));
	for (int i = 0; i < 2; i++) {
		CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
		CHECK(cuEventCreate(&event[i], NO_TIMING));
	}
	CHECK(cuCtxSynchronize()); // the streams do not wait for the fill
	for (int i = 0; i < ROUNDS; i++)
		measure();
	for (int i = 0; i < 2; i++) {
		CHECK(cuEventDestroy(event[i]));
		CHECK(cuStreamDestroy(stream[i]));
	}
	CHECK(cuMemFree(word));
	CHECK(cuCtxDestroy(ctx));
	puts("hops: PASS");
	return 0;
}
