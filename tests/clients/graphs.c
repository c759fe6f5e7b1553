// A graph does what the same calls do directly: random work of two streams that wait for each
// other is queued, and then captured, instantiated and launched, and must leave the same memory.
// The results of the work depend on its order.
#include "driver.h"

#ifndef USE_CUDA_H
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *data);
enum { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED };
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n);
CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data);
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream);
typedef struct CUarray_st *CUarray;
typedef struct { size_t Width, Height; unsigned Format, NumChannels; } CUDA_ARRAY_DESCRIPTOR;
enum { CU_AD_FORMAT_UNSIGNED_INT32 = 3 };
#define CU_MEMORYTYPE_ARRAY ((CUmemorytype)3)
#define cuArrayCreate cuArrayCreate_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream);
#define cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2
#define cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2
CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description);
CUresult cuMemcpyHtoAAsync(CUarray to, size_t at, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyAtoHAsync(void *to, CUarray from, size_t at, size_t bytes, CUstream stream);
#endif

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 n, .param .u32 a, .param .u32 b)\n{\n"
	".reg .u64 %rd<4>; .reg .u32 %r<10>; .reg .pred %q;\n"
	"ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [a]; ld.param.u32 %r3, [b];\n"
	"mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x; mad.lo.u32 %r7, %r4, %r5, %r6;\n"
	"setp.ge.u32 %q, %r7, %r1; @%q bra END;\n"
	"mul.wide.u32 %rd2, %r7, 4; add.u64 %rd3, %rd1, %rd2;\n"
	"ld.global.u32 %r8, [%rd3]; mad.lo.u32 %r9, %r8, %r2, %r3; add.u32 %r9, %r9, %r7; st.global.u32 [%rd3], %r9;\n"
	"END: ret;\n}\n";

enum { N = 1000, BYTES = 4 * N, OPERATIONS = 60, ROUNDS = 12, LAUNCHES = 3 };

static CUfunction step;
static CUstream streams[2];
static CUevent events[2];
static CUdeviceptr device[2];
static unsigned *pinned[2], pageable[2][N], heard[2];
static CUarray arrays[2]; // NULL where the device has none

static void hear(void *data)
{
	int i = *(int *)data;
	for (int k = 0; k < N; k++)
		heard[i] = heard[i] * 31 + pinned[i][k];
}

static unsigned state;
static int allocates; // the work allocates memory in the order of streams

static unsigned some(unsigned n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 16) % n;
}

// through copies through the stream's array, by lines and by rows.
static void through(int i, unsigned n)
{
	size_t x = 4 * some(N - n + 1);
	if (arrays[i] == NULL)
		return;
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = arrays[i], .srcXInBytes = x, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device[i] + 4 * (N - n), .WidthInBytes = 4 * n, .Height = 1};
	CHECK(cuMemcpyHtoAAsync(arrays[i], x, pageable[i], 4 * n, streams[i]));
	CHECK(cuMemcpy2DAsync(&rows, streams[i]));
	CHECK(cuMemcpyAtoHAsync(pageable[i], arrays[i], 0, BYTES, streams[i]));
}

// borrow works on memory that it allocates and frees in the order of the stream.
static void borrow(int i, unsigned n)
{
	CUdeviceptr p;
	if (!allocates)
		return;
	CHECK(cuMemAllocAsync(&p, 4 * n, streams[i]));
	CHECK(cuMemcpyDtoDAsync(p, device[i], 4 * n, streams[i]));
	CHECK(cuMemsetD32Async(p, n, 1, streams[i]));
	CHECK(cuMemcpyDtoDAsync(device[i] + 4 * (N - n), p, 4 * n, streams[i]));
	CHECK(cuMemFreeAsync(p, streams[i]));
}

// operate queues work on a stream and its own memory.
static void operate(int i)
{
	static int which[2] = {0, 1};
	unsigned n = 1 + some(N), a = 2 * some(100) + 1, b = some(1000);
	void *arguments[] = {&device[i], &n, &a, &b};
	switch (some(9)) {
	case 0:
	case 1: CHECK(cuLaunchKernel(step, (N + 127) / 128, 1, 1, 128, 1, 1, 0, streams[i], arguments, NULL)); break;
	case 2: CHECK(cuMemsetD32Async(device[i] + 4 * (N - n), b, n, streams[i])); break;
	case 3: CHECK(cuMemcpyDtoDAsync(device[i], device[i] + BYTES / 2, n * 2 & ~3u, streams[i])); break;
	case 4: // what the program hears of must not change before it has
		CHECK(cuMemcpyDtoHAsync(pinned[i], device[i], BYTES, streams[i]));
		CHECK(cuLaunchHostFunc(streams[i], hear, &which[i]));
		break;
	case 5: CHECK(cuMemcpyDtoHAsync(pageable[i], device[i], 4 * n, streams[i])); break;
	case 6: CHECK(cuMemcpyHtoDAsync(device[i], pageable[i], 4 * n, streams[i])); break;
	case 7: through(i, n); break;
	case 8: borrow(i, n); break;
	}
}

// follow lets a stream wait for the other.
static void follow(int i)
{
	CHECK(cuEventRecord(events[1 - i], streams[1 - i]));
	CHECK(cuStreamWaitEvent(streams[i], events[1 - i], 0));
}

static void work(unsigned seed)
{
	state = seed;
	follow(1);
	for (int k = 0; k < OPERATIONS; k++) {
		if (some(6) == 0) { // one stream takes over what the other has made
			int i = (int)some(2);
			follow(i);
			CHECK(cuMemcpyDtoDAsync(device[i] + BYTES / 2, device[1 - i], BYTES / 2, streams[i]));
			follow(1 - i);
		} else
			operate((int)some(2));
	}
	follow(0);
}

static void clear(void)
{
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemsetD32(device[i], 7, N));
		memset(pageable[i], 1 + i, BYTES);
		if (arrays[i])
			CHECK(cuMemcpyHtoAAsync(arrays[i], 0, pageable[i], BYTES, streams[i]));
		memset(pinned[i], 0, BYTES);
		heard[i] = 0;
	}
	CHECK(cuCtxSynchronize());
}

// result is what all memory holds.
static unsigned result(void)
{
	static unsigned copy[N];
	unsigned sum = 0;
	CHECK(cuStreamSynchronize(streams[0]));
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemcpyDtoH(copy, device[i], BYTES));
		for (int k = 0; k < N; k++)
			sum = ((sum * 31 + copy[k]) * 31 + pageable[i][k]) * 31 + pinned[i][k];
		sum = sum * 31 + heard[i];
	}
	return sum;
}

static void compare(unsigned seed)
{
	unsigned directly[LAUNCHES], previous = 0;
	CUgraph graph, clone;
	CUgraphExec exec;
	size_t nodes = 0;
	allocates = seed & 1;
	clear();
	for (int l = 0; l < LAUNCHES; l++) {
		work(seed);
		directly[l] = result();
		REQUIRE(directly[l] != previous);
		previous = directly[l];
	}
	clear();
	unsigned before = result();
	CHECK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	work(seed);
	CHECK(cuStreamEndCapture(streams[0], &graph));
	REQUIRE(result() == before); // nothing has run
	CHECK(cuGraphGetNodes(graph, NULL, &nodes));
	REQUIRE(nodes >= OPERATIONS / 2);
	if (allocates) { // such graphs have no clones
		EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
		clone = graph;
	} else {
		CHECK(cuGraphClone(&clone, graph));
		CHECK(cuGraphDestroy(graph));
	}
	CHECK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	CHECK(cuGraphDestroy(clone));
	for (int l = 0; l < LAUNCHES; l++) {
		CHECK(cuGraphLaunch(exec, streams[l % 2]));
		CHECK(cuStreamSynchronize(streams[l % 2]));
		REQUIRE(result() == directly[l]);
	}
	CHECK(cuGraphExecDestroy(exec));
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	CUgraph graph;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&step, module, "step"));
	for (int i = 0; i < 2; i++) {
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		CHECK(cuEventCreate(&events[i], 0));
		CHECK(cuMemAlloc(&device[i], BYTES));
		CHECK(cuMemAllocHost((void **)&pinned[i], BYTES));
		CUresult r = cuArrayCreate(&arrays[i], &(CUDA_ARRAY_DESCRIPTOR){N, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1});
		if (r != CUDA_ERROR_NOT_SUPPORTED) // as GPUs of NVIDIA's are behind PVDRM
			CHECK(r);
	}
	for (unsigned seed = 0; seed < ROUNDS; seed++)
		compare(seed * 7919);

	// A wait for a stream that is captured ends the capture, and no more than that.
	CHECK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(streams[0]));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(streams[0], &graph));
	CHECK(cuStreamSynchronize(streams[0]));
	CHECK(cuCtxDestroy(ctx));
	puts("graphs: PASS");
	return 0;
}
