// Kernels with as many bytes of parameters as CUDA 12.1 allows: launched, cooperative, packed, and in a
// graph, and modules with more refused.
#include "driver.h"

#ifndef USE_CUDA_H
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuStreamBeginCapture_v2(CUstream, int mode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);
#endif

enum { MOST = 32764 };

// The kernel adds the sum of its words, which it reads through an address, to a word, and the last,
// which it reads by name, to the next.
static CUresult load(CUmodule *m, int n)
{
	static char ptx[2048];
	snprintf(ptx, sizeof ptx,
		".version 8.1\n.target sm_70\n.address_size 64\n"
		".visible .entry sum(.param .u64 p, .param .align 4 .b8 big[%d])\n{\n"
		".reg .u64 %%a, %%at;\n.reg .b32 %%r, %%n, %%sum;\n.reg .pred %%more;\n"
		"ld.param.u64 %%a, [p];\nld.param.u32 %%r, [big+%d];\nred.global.add.u32 [%%a+4], %%r;\n"
		"mov.b64 %%at, big;\nmov.u32 %%n, %d;\nmov.u32 %%sum, 0;\n"
		"NEXT:\nld.param.u32 %%r, [%%at];\nadd.u32 %%sum, %%sum, %%r;\nadd.u64 %%at, %%at, 4;\nsub.u32 %%n, %%n, 4;\n"
		"setp.ne.u32 %%more, %%n, 0;\n@%%more bra NEXT;\nred.global.add.u32 [%%a], %%sum;\nret;\n}\n", n - 8, n - 12, n - 8);
	return cuModuleLoadData(m, ptx);
}

static void holds(CUdeviceptr p, unsigned sum, unsigned last)
{
	unsigned x[2];
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(x, p, sizeof x));
	REQUIRE(x[0] == sum && x[1] == last);
}

static void run(CUdeviceptr p, CUstream s, int n)
{
	static unsigned big[MOST / 4];
	static char packed[MOST];
	void *args[] = {&p, big};
	size_t bytes = (size_t)n;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	unsigned sum = 0, words = (unsigned)(n - 8) / 4, last;
	CUmodule m;
	CUfunction f;
	CUgraph g;
	CUgraphExec x;
	for (unsigned i = 0; i < words; i++)
		sum += big[i] = i * 2654435761u + (unsigned)n;
	last = big[words - 1];
	memcpy(packed, &p, sizeof p);
	memcpy(packed + sizeof p, big, bytes - sizeof p);
	CHECK(load(&m, n));
	CHECK(cuModuleGetFunction(&f, m, "sum"));
	CHECK(cuMemsetD32(p, 0, 2));
	CHECK(cuCtxSynchronize());
	for (int i = 0; i < 20; i++) // more than the queue holds
		CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	holds(p, 20 * sum, 20 * last);
	CHECK(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	holds(p, 22 * sum, 22 * last);

	CHECK(cuStreamBeginCapture_v2(s, 0));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	CHECK(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args));
	CHECK(cuStreamEndCapture(s, &g));
	CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
	memset(big, 0, sizeof big), memset(packed, 0, sizeof packed); // the graph has copies
	CHECK(cuGraphLaunch(x, s));
	CHECK(cuGraphLaunch(x, s));
	holds(p, 28 * sum, 28 * last);
	CHECK(cuGraphExecDestroy(x));
	CHECK(cuGraphDestroy(g));
	CHECK(cuModuleUnload(m));
}

int main(void)
{
	CUcontext ctx;
	CUdevice dev;
	CUdeviceptr p;
	CUstream s;
	CUmodule m;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&p, 8));
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	static const int sizes[] = {4096, 4352, 12248, 12252, MOST};
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		run(p, s, sizes[i]);
	EXPECT(CUDA_ERROR_INVALID_PTX, load(&m, MOST + 4));
	CHECK(cuCtxDestroy(ctx));
	puts("parameters: PASS");
	return 0;
}
