// Two devices of one program. Where they reach each other's memory, kernels of one write memory of the other: memory that was there
// before access was given, later memory, and memory that another process has (CUDA's IPC). Where they do not, that is a
// clear error, and copies go all the same.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 v)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<3>;\n"
	"ld.param.u64 %d0, [p];\nld.param.u32 %r0, [v];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d1, %r1, 4;\nadd.s64 %d0, %d0, %d1;\n"
	"ld.global.u32 %r2, [%d0];\nadd.u32 %r2, %r2, %r0;\nadd.u32 %r2, %r2, %r1;\nst.global.u32 [%d0], %r2;\nret;\n}\n";

enum { N = 256, BIG = 64 << 20, ALREADY = 704, NOT_ENABLED = 705, UNSUPPORTED = 217, ACCESS = 2, LAZY = 1 };

#ifndef USE_CUDA_H
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuCtxDisablePeerAccess(CUcontext);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
#endif

static CUdevice devices[2];
static CUcontext ctx[2];
static CUfunction add[2];

static void begin(int i)
{
	CUmodule m;
	int n;
	CHECK(cuDeviceGetCount(&n));
	CHECK(cuDeviceGet(&devices[i], i % n)); // one device alone has two contexts
	CHECK(cuCtxCreate(&ctx[i], 0, devices[i]));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&add[i], m, "add"));
}

static CUdeviceptr alloc(int i, size_t n, unsigned v)
{
	CUdeviceptr p;
	CHECK(cuCtxSetCurrent(ctx[i]));
	CHECK(cuMemAlloc(&p, n));
	CHECK(cuMemsetD32(p, v, n / 4));
	CHECK(cuCtxSynchronize());
	return p;
}

static void adds(int i, CUdeviceptr p, unsigned v)
{
	void *args[] = {&p, &v};
	CHECK(cuCtxSetCurrent(ctx[i]));
	CHECK(cuLaunchKernel(add[i], 1, 1, 1, N, 1, 1, 0, NULL, args, NULL));
	CHECK(cuCtxSynchronize());
}

static void holds(int i, CUdeviceptr p, unsigned v, unsigned step)
{
	unsigned x[N];
	CHECK(cuCtxSetCurrent(ctx[i]));
	CHECK(cuMemcpyDtoH(x, p, sizeof x));
	for (unsigned k = 0; k < N; k++)
		REQUIRE(x[k] == v + k * step);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

// Copies in both directions, waited for and queued, on any stream.
static void copies(void)
{
	CUdeviceptr a = alloc(0, BIG, 1), b = alloc(1, BIG, 2);
	CUstream s;
	CHECK(cuMemcpyPeer(a, ctx[0], b, ctx[1], N * 4));
	holds(0, a, 2, 0);
	CHECK(cuMemcpyPeerAsync(b + 4096, ctx[1], a + 8192, ctx[0], BIG - 8192, NULL));
	CHECK(cuCtxSynchronize());
	holds(1, b + 4096, 1, 0);
	holds(1, b + BIG - 4096 - N * 4, 1, 0);
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemcpyDtoDAsync_v2(a, b + 4096, N * 4, s));
	CHECK(cuMemcpyDtoDAsync_v2(b, a + BIG / 2, N * 4, s));
	CHECK(cuStreamSynchronize(s));
	holds(0, a, 1, 0);
	holds(1, b, 1, 0);
	for (int i = 0; i < 3; i++) {
		double t = now();
		CHECK(cuMemcpyPeerAsync(b, ctx[1], a, ctx[0], BIG, s));
		CHECK(cuStreamSynchronize(s));
		fprintf(stderr, "%d MiB from one device to the other in %.3f ms\n", BIG >> 20, now() - t);
	}
	CHECK(cuMemFree(a));
	CHECK(cuMemFree(b));
}

// The child opens what the parent has on the other device.
static void child(int in, int out)
{
	CUipcMemHandle h;
	CUdeviceptr p;
	char c = 0;
	CHECK(cuInit(0));
	REQUIRE(read(in, &h, sizeof h) == sizeof h);
	begin(1);
	CHECK(cuIpcOpenMemHandle(&p, h, LAZY));
	holds(1, p, 5, 0);
	adds(1, p, 100);
	REQUIRE(write(out, &c, 1) == 1 && read(in, &c, 1) == 1);
	holds(1, p, 105 + 7, 2); // the parent has freed it
	CHECK(cuIpcCloseMemHandle(p));
	_exit(0);
}

static void otherProcess(pid_t pid, int in, int out)
{
	CUdeviceptr p = alloc(0, N * 4, 5);
	CUipcMemHandle h;
	int status;
	char c;
	CHECK(cuIpcGetMemHandle(&h, p));
	REQUIRE(write(out, &h, sizeof h) == sizeof h && read(in, &c, 1) == 1);
	holds(0, p, 105, 1);
	adds(0, p, 7);
	CHECK(cuMemFree(p));
	REQUIRE(write(out, &c, 1) == 1 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void reaches(void)
{
	CUdeviceptr before = alloc(0, N * 4, 10), later, large = alloc(0, BIG, 20);
	CHECK(cuCtxSetCurrent(ctx[1]));
	CHECK(cuCtxEnablePeerAccess(ctx[0], 0));
	EXPECT(ALREADY, cuCtxEnablePeerAccess(ctx[0], 0));
	later = alloc(0, N * 4, 30);
	adds(1, before, 1);
	adds(1, later, 2);
	adds(1, large + BIG - N * 4, 3);
	holds(0, before, 11, 1);
	holds(0, later, 32, 1);
	holds(0, large + BIG - N * 4, 23, 1);
	adds(0, before, 1); // and the owner goes on
	adds(1, before, 1);
	holds(0, before, 13, 3);
	CHECK(cuMemFree(later));
	CHECK(cuCtxSetCurrent(ctx[1]));
	CHECK(cuCtxDisablePeerAccess(ctx[0]));
	EXPECT(NOT_ENABLED, cuCtxDisablePeerAccess(ctx[0]));
	CHECK(cuMemFree(before));
	CHECK(cuMemFree(large));
}

int main(void)
{
	int can, back, attribute, toChild[2], toParent[2];
	REQUIRE(!pipe(toChild) && !pipe(toParent));
	pid_t pid = fork(); // before there is a context
	REQUIRE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child(toChild[0], toParent[1]);
	}
	CHECK(cuInit(0));
	begin(0);
	begin(1);
	CHECK(cuDeviceCanAccessPeer(&can, devices[1], devices[0]));
	CHECK(cuDeviceCanAccessPeer(&back, devices[0], devices[1]));
	if (devices[0] != devices[1]) {
		CHECK(cuDeviceGetP2PAttribute(&attribute, ACCESS, devices[1], devices[0]));
		REQUIRE(attribute == can);
	}
	REQUIRE(back == can);
	copies();
	if (can) {
		reaches();
		copies();
		otherProcess(pid, toParent[0], toChild[1]);
	} else {
		EXPECT(UNSUPPORTED, cuCtxEnablePeerAccess(ctx[0], 0));
		EXPECT(NOT_ENABLED, cuCtxDisablePeerAccess(ctx[0]));
		kill(pid, SIGKILL);
	}
	CHECK(cuCtxDestroy(ctx[0]));
	CHECK(cuCtxDestroy(ctx[1]));
	printf("%s\npeers: PASS\n", can ? "they reach each other's memory" : "copies only");
	return 0;
}
