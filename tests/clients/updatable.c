// Kernels change nodes of graphs: parameters, grids, and whether they are enabled. The answers are an H100's.
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
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute, const void *value);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, void *value);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
#endif

static const char source[] = ".version 8.4\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b32 r) cudaGraphKernelNodeSetParam(.param .b64 n, .param .b64 o, .param .b64 v, .param .b64 s);\n"
	".extern .func (.param .b32 r) cudaGraphKernelNodeSetGridDim(.param .b64 n, .param .align 4 .b8 g[12]);\n"
	".extern .func (.param .b32 r) cudaGraphKernelNodeSetEnabled(.param .b64 n, .param .b32 e);\n"
	".extern .func (.param .b32 r) cudaGraphKernelNodeUpdatesApply(.param .b64 u, .param .b64 c);\n"
	// Each block adds v; the first notes the grid.
	".visible .entry target(.param .u64 out, .param .u32 v)\n{\n.reg .b32 %r<6>;\n.reg .b64 %d<2>;\n.reg .pred %p;\n"
	"ld.param.u64 %d0, [out];\nld.param.u32 %r0, [v];\natom.add.u32 %r1, [%d0], %r0;\n"
	"mov.u32 %r2, %nctaid.x;\nst.u32 [%d0+4], %r2;\nmov.u32 %r2, %nctaid.y;\nst.u32 [%d0+8], %r2;\nret;\n}\n"
	// what: 0 the parameter at an offset, 1 the grid, 2 enabled, 3 the updates at an address. The error goes to out[4].
	".visible .entry update(.param .u64 out, .param .u64 node, .param .u32 what, .param .u64 a, .param .u32 v)\n{\n"
	".reg .b32 %r<6>;\n.reg .b64 %d<5>;\n.reg .pred %p<4>;\n.param .b64 n;\n.param .b64 o;\n.param .b64 x;\n.param .b64 s;\n.param .b32 on;\n"
	".param .align 4 .b8 g[12];\n.param .b32 e;\n.local .align 4 .u32 value;\n"
	"ld.param.u64 %d0, [out];\nld.param.u64 %d1, [node];\nld.param.u32 %r0, [what];\nld.param.u64 %d2, [a];\nld.param.u32 %r1, [v];\n"
	"st.param.b64 [n], %d1;\nsetp.eq.u32 %p0, %r0, 0;\nsetp.eq.u32 %p1, %r0, 1;\nsetp.eq.u32 %p2, %r0, 2;\n@%p0 bra P;\n@%p1 bra G;\n@%p2 bra E;\n"
	"st.param.b64 [n], %d2;\ncvt.u64.u32 %d3, %r1;\nst.param.b64 [o], %d3;\ncall (e), cudaGraphKernelNodeUpdatesApply, (n, o);\nbra D;\n"
	"P:\nst.local.u32 [value], %r1;\nmov.u64 %d3, value;\ncvta.local.u64 %d3, %d3;\nst.param.b64 [o], %d2;\nst.param.b64 [x], %d3;\nmov.u64 %d4, 4;\nst.param.b64 [s], %d4;\n"
	"call (e), cudaGraphKernelNodeSetParam, (n, o, x, s);\nbra D;\n"
	"G:\ncvt.u32.u64 %r2, %d2;\nmov.u32 %r3, 1;\nst.param.b32 [g], %r1;\nst.param.b32 [g+4], %r2;\nst.param.b32 [g+8], %r3;\n"
	"call (e), cudaGraphKernelNodeSetGridDim, (n, g);\nbra D;\n"
	"E:\nst.param.b32 [on], %r1;\ncall (e), cudaGraphKernelNodeSetEnabled, (n, on);\n"
	"D:\nld.param.b32 %r4, [e];\nst.u32 [%d0+16], %r4;\nret;\n}\n";

enum { UPDATABLE = 13, PARAM = 0, GRID, ENABLED, APPLY };
struct update { unsigned long long node; unsigned field, pad; union { unsigned grid[3]; unsigned enabled; struct { CUdeviceptr value; size_t offset, size; } param; } u; };
static CUfunction target, updater;
static CUdeviceptr out;
static unsigned got[5];
static CUgraphExec exec;

static void look(void)
{
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	CHECK(cuMemsetD8(out, 0, sizeof got));
}

// update has a kernel change a node, and returns the error.
static unsigned update(unsigned long long node, unsigned what, unsigned long long a, unsigned v)
{
	void *params[] = {&out, &node, &what, &a, &v};
	CHECK(cuLaunchKernel(updater, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	look();
	return got[4];
}

// launch launches the graph, and requires what its node has added in a grid.
static void launch(unsigned sum, unsigned x, unsigned y)
{
	CHECK(cuGraphLaunch(exec, NULL));
	look();
	if (got[0] != sum || got[1] != x || got[2] != y)
		fprintf(stderr, "sum %u, grid %u, %u; want %u, %u, %u\n", got[0], got[1], got[2], sum, x, y);
	REQUIRE(got[0] == sum && got[1] == x && got[2] == y);
}

static CUgraphNode adds(CUgraph g, CUfunction f, void **params, CUgraphNode before)
{
	CUDA_KERNEL_NODE_PARAMS p = {f, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
	CUgraphNode n;
	CHECK(cuGraphAddKernelNode(&n, g, &before, before != NULL, &p));
	return n;
}

static unsigned long long becomes(CUgraphNode n)
{
	unsigned long long value[8] = {1};
	CHECK(cuGraphKernelNodeSetAttribute(n, UPDATABLE, value));
	REQUIRE(value[1] != 0);
	return value[1];
}

static void from_outside(void)
{
	CUgraph g, clone;
	CUgraphExec again;
	unsigned v = 1, nine = 9;
	void *params[] = {&out, &v}, *others[] = {&out, &nine};
	unsigned long long value[8] = {0};
	CHECK(cuGraphCreate(&g, 0));
	CUgraphNode n = adds(g, target, params, NULL), plain = adds(g, target, params, n);
	CHECK(cuGraphKernelNodeSetAttribute(plain, UPDATABLE, value));
	unsigned long long node = becomes(n);
	REQUIRE(becomes(n) == node);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphKernelNodeSetAttribute(n, UPDATABLE, value));
	value[0] = 2;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetAttribute(plain, UPDATABLE, value));
	CHECK(cuGraphKernelNodeGetAttribute(n, UPDATABLE, value));
	REQUIRE((unsigned)value[0] == 1 && value[1] == node);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphKernelNodeCopyAttributes(plain, n));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, g));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(n));
	CHECK(cuGraphDestroyNode(plain));
	REQUIRE(update(node, PARAM, 8, 10) == 1); // not yet
	CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&again, g, 0));
	REQUIRE(update(node, PARAM, 8, 10) == 1);
	CHECK(cuGraphUpload(exec, NULL));
	launch(1, 1, 1);
	REQUIRE(update(node, PARAM, 8, 10) == 0);
	launch(10, 1, 1);
	REQUIRE(update(node, GRID, 2, 4) == 0);
	launch(80, 4, 2);
	REQUIRE(update(node, ENABLED, 0, 0) == 0);
	launch(0, 0, 0);
	REQUIRE(update(node, ENABLED, 0, 1) == 0);
	launch(80, 4, 2);
	REQUIRE(update(node, PARAM, 9, 10) == 1 && update(node, PARAM, 1 << 20, 10) == 1 && update(node, PARAM, ~0ull, 10) == 1);
	REQUIRE(update(node, GRID, 2, 0) == 1 && update(node, GRID, 70000, 1) == 1 && update(0, ENABLED, 0, 1) == 1 && update(node, APPLY, 0, 0) == 1);
	launch(80, 4, 2);
	// Several at once, the last of which is none.
	CUdeviceptr list;
	struct update all[] = {{.node = node, .field = 1, .u.grid = {3, 1, 1}}, {.node = node, .field = 3, .u.enabled = 1},
		{.node = node, .field = 2, .u.param = {0, 8, 4}}, {.node = node, .field = 9}};
	CHECK(cuMemAlloc(&list, sizeof all + 4));
	all[2].u.param.value = list + sizeof all;
	CHECK(cuMemcpyHtoD(list, all, sizeof all));
	CHECK(cuMemsetD32(list + sizeof all, 20, 1));
	REQUIRE(update(0, APPLY, list, 3) == 0);
	launch(60, 3, 1);
	REQUIRE(update(0, APPLY, list, 4) == 1);
	// What the program changes is all that holds.
	CHECK(cuGraphNodeSetEnabled(exec, n, 0));
	launch(0, 0, 0);
	REQUIRE(update(node, ENABLED, 0, 1) == 0);
	launch(1, 1, 1);
	CUDA_KERNEL_NODE_PARAMS p = {target, 6, 1, 1, 1, 1, 1, 0, others, NULL, NULL, NULL};
	CHECK(cuGraphExecKernelNodeSetParams(exec, n, &p));
	CHECK(cuGraphNodeSetEnabled(exec, n, 1));
	launch(54, 6, 1);
	REQUIRE(update(node, PARAM, 8, 11) == 0);
	launch(66, 6, 1);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(g));
	CHECK(cuMemFree(list));
}

// from_inside has a node of a graph change a later one.
static void from_inside(void)
{
	CUgraph g;
	unsigned v = 1, what = PARAM, to = 30;
	unsigned long long node = 0, at = 8;
	void *params[] = {&out, &v}, *updates[] = {&out, &node, &what, &at, &to};
	CHECK(cuGraphCreate(&g, 0));
	// The node is made first, for its name, and comes after the other by an edge.
	CUgraphNode changed = adds(g, target, params, NULL);
	node = becomes(changed);
	CUgraph of = g;
	CUgraphNode first = adds(of, updater, updates, NULL);
	extern CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
	CHECK(cuGraphAddDependencies(g, &first, &changed, 1));
	CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
	CHECK(cuGraphUpload(exec, NULL));
	for (int i = 0; i < 3; i++)
		launch(30, 1, 1);
	CHECK(cuGraphDestroy(g));
	launch(30, 1, 1);
	CHECK(cuGraphExecDestroy(exec));
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUlinkState link;
	CUmodule module;
	void *code;
	size_t bytes;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuLinkCreate(0, NULL, NULL, &link));
	CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)source, sizeof source, "source", 0, NULL, NULL));
	CHECK(cuLinkComplete(link, &code, &bytes));
	CHECK(cuModuleLoadData(&module, code));
	CHECK(cuLinkDestroy(link));
	CHECK(cuModuleGetFunction(&target, module, "target"));
	CHECK(cuModuleGetFunction(&updater, module, "update"));
	CHECK(cuMemAlloc(&out, sizeof got));
	CHECK(cuMemsetD8(out, 0, sizeof got));
	from_outside();
	from_inside();
	CHECK(cuCtxDestroy(ctx));
	puts("updatable: PASS");
	return 0;
}
