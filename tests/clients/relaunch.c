// Runs graphs whose kernels launch graphs: others, and themselves.
#include <string.h>

#include "driver.h"

#ifndef USE_CUDA_H
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct {
	CUfunction func;
	unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
	void *kern, *ctx;
} CUDA_KERNEL_NODE_PARAMS;
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t n, CUstream stream);
#endif

#define NOTE(value) "atom.add.u32 %r1, [%d0], 1;\nmad.wide.u32 %d1, %r1, 4, %d0;\nmov.u32 %r2, " value ";\nst.u32 [%d1+4], %r2;\n"
#define KERNEL(name)                                                                                                                  \
	".visible .entry " name "(.param .u64 log, .param .u64 graph, .param .u64 how, .param .u32 number)\n{\n.reg .b32 %r<6>;\n"   \
	".reg .b64 %d<5>;\n.reg .pred %p<2>;\n.param .b64 a;\n.param .b64 s;\n.param .b32 e;\nld.param.u64 %d0, [log];\n"             \
	"ld.param.u64 %d2, [graph];\nld.param.u64 %d3, [how];\nld.param.u32 %r0, [number];\n"
#define LAUNCH "st.param.b64 [a], %d2;\nst.param.b64 [s], %d3;\ncall (e), cudaGraphLaunch, (a, s);\nld.param.b32 %r3, [e];\n"

static const char source[] = ".version 8.4\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 g, .param .b64 s);\n"
	KERNEL("leaf") NOTE("%r0") "ret;\n}\n"
	KERNEL("launcher") LAUNCH NOTE("%r0") NOTE("%r3") "ret;\n}\n" // notes its number and the error
	KERNEL("twice") LAUNCH LAUNCH NOTE("%r0") NOTE("%r3") "ret;\n}\n"
	// again launches its graph until the log has as many words as its number.
	KERNEL("again") NOTE("7") "setp.ge.u32 %p0, %r1, %r0;\n@%p0 ret;\nmov.u64 %d2, %current_graph_exec;\n" LAUNCH
	"setp.eq.u32 %p1, %r3, 0;\n@%p1 ret;\n" NOTE("%r3") "ret;\n}\n"
	KERNEL("forever") "mov.u64 %d2, %current_graph_exec;\n" LAUNCH "ret;\n}\n";

enum { TAIL = 1, FORGET, SIBLING };
enum { DEVICE = 4 };
static CUmodule module;
static CUstream stream;
static CUdeviceptr out;
static unsigned words[64]; // of the log

static CUgraphExec make(const char *kernel, CUgraphExec other, unsigned long long how, unsigned number, unsigned flags)
{
	CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
	unsigned long long graph = (unsigned long long)other, stream_of = how << 56;
	void *params[] = {&out, &graph, &stream_of, &number};
	CUgraph g;
	CUgraphNode n;
	CUgraphExec e;
	p.kernelParams = params;
	CHECK(cuModuleGetFunction(&p.func, module, kernel));
	CHECK(cuGraphCreate(&g, 0));
	CHECK(cuGraphAddKernelNode(&n, g, NULL, 0, &p));
	CHECK(cuGraphInstantiateWithFlags(&e, g, flags));
	CHECK(cuGraphDestroy(g));
	return e;
}

static void clear(void)
{
	CHECK(cuMemsetD8(out, 0, sizeof words));
	CHECK(cuCtxSynchronize()); // the stream does not wait for the default one
}

static void run(CUgraphExec e, unsigned n, const unsigned *want)
{
	clear();
	CHECK(cuGraphLaunch(e, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(words, out, sizeof words));
	for (unsigned i = 0; i < n; i++)
		if (words[0] != n || words[1 + i] != want[i]) {
			fprintf(stderr, "%u words, word %u is %u, not %u\n", words[0], i, words[1 + i], want[i]);
			exit(1);
		}
}
#define RUN(graph, ...) run(graph, sizeof (unsigned[]){__VA_ARGS__} / 4, (unsigned[]){__VA_ARGS__})

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUlinkState link;
	CUgraph g;
	CUgraphNode n;
	CUgraphExec leaf, other, nested, e;
	CUfunction f;
	void *image;
	size_t bytes;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, 0, device));
	CHECK(cuMemAlloc(&out, sizeof words));
	CHECK(cuStreamCreate(&stream, 1));
	CHECK(cuLinkCreate(0, NULL, NULL, &link));
	CHECK(cuLinkAddData(link, 1, (void *)source, sizeof source, "source", 0, NULL, NULL)); // as PTX
	CHECK(cuLinkComplete(link, &image, &bytes));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuLinkDestroy(link));

	leaf = make("leaf", NULL, 0, 5, DEVICE);
	RUN(make("launcher", leaf, FORGET, 1, 0), 1, 1); // which is not uploaded
	CHECK(cuGraphUpload(leaf, stream));
	RUN(make("launcher", leaf, FORGET, 1, 0), 1, 0, 5);
	RUN(make("launcher", leaf, SIBLING, 1, DEVICE), 1, 0, 5);
	RUN(make("launcher", leaf, TAIL, 1, 0), 1, 0, 5);
	RUN(make("twice", leaf, TAIL, 1, 0), 1, 1, 5); // one tail launch of a graph waits at a time
	RUN(make("launcher", leaf, 0, 1, 0), 1, 1);
	RUN(make("launcher", NULL, FORGET, 1, 0), 1, 1);
	RUN(make("launcher", (CUgraphExec)0x123450, FORGET, 1, 0), 1, 1);
	other = make("leaf", NULL, 0, 6, 0); // not for the device
	CHECK(cuGraphUpload(other, stream));
	RUN(make("launcher", other, FORGET, 1, 0), 1, 1);

	// Launches of what was launched come before what comes behind it.
	nested = make("launcher", leaf, TAIL, 2, DEVICE);
	CHECK(cuGraphUpload(nested, stream));
	RUN(make("launcher", nested, FORGET, 1, 0), 1, 0, 2, 0, 5);
	RUN(make("again", NULL, TAIL, 5, DEVICE), 7, 7, 7, 7, 7, 7);
	RUN(make("again", NULL, FORGET, 5, DEVICE), 7, 1); // a graph is no child of its own
	RUN(make("again", NULL, TAIL, 5, 0), 7, 1);        // the host's graphs have no name for kernels

	// Whatever launches, calls for the stream come behind all of it; so do other graphs of this kind.
	CUstream second;
	CHECK(cuStreamCreate(&second, 1));
	e = make("again", NULL, TAIL, 20, DEVICE);
	clear();
	CHECK(cuGraphLaunch(e, stream));
	CHECK(cuGraphLaunch(make("leaf", NULL, 0, 9, DEVICE), second));
	CHECK(cuStreamSynchronize(second));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(words, out, sizeof words));
	REQUIRE(words[0] == 22 && words[22] == 9);
	CHECK(cuGraphExecDestroy(leaf));
	RUN(make("launcher", leaf, FORGET, 1, 0), 1, 1);

	// A kernel that is no graph's launches none.
	unsigned long long graph = (unsigned long long)nested, how = 2ull << 56;
	unsigned number = 1;
	void *params[] = {&out, &graph, &how, &number};
	CHECK(cuModuleGetFunction(&f, module, "launcher"));
	clear();
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(words, out, sizeof words));
	REQUIRE(words[0] == 2 && words[2] == 801);

	CHECK(cuGraphCreate(&g, 0));
	EXPECT(1, cuGraphInstantiateWithFlags(&e, g, DEVICE));
	CHECK(cuGraphAddEmptyNode(&n, g, NULL, 0));
	EXPECT(1, cuGraphInstantiateWithFlags(&e, g, DEVICE));
	// One that goes on for ever holds no other stream up, and ends with its context.
	CHECK(cuGraphLaunch(make("forever", NULL, TAIL, 0, DEVICE), stream));
	CHECK(cuMemsetD8Async(out, 3, sizeof words, second));
	CHECK(cuStreamSynchronize(second));
	EXPECT(600, cuStreamQuery(stream));
	CHECK(cuCtxDestroy(context));
	puts("relaunch: PASS");
	return 0;
}
