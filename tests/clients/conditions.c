// Conditional nodes do what if, else, while and switch do: random programs run as graphs and on the
// processor, and must leave the same numbers. A loop without end holds nothing else up, and ends
// with its context or with the program.
#include "driver.h"

#ifndef USE_CUDA_H
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUgraphConditionalHandle;
typedef struct {
	CUfunction func;
	unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
	void *kern, *ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct {
	CUgraphConditionalHandle handle;
	int type;
	unsigned size;
	CUgraph *phGraph_out;
	CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;
typedef struct {
	int type, reserved0[3];
	union {
		char room[232];
		CUDA_CONDITIONAL_NODE_PARAMS conditional;
	};
	long long reserved2;
} CUgraphNodeParams;
enum { CU_GRAPH_NODE_TYPE_CONDITIONAL = 13, CU_GRAPH_COND_TYPE_IF = 0, CU_GRAPH_COND_TYPE_WHILE, CU_GRAPH_COND_TYPE_SWITCH };
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext ctx, unsigned value, unsigned flags);
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUgraphNodeParams *params);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
#endif

#define CALL_SET "st.param.b64 [a], %h; st.param.b32 [b], %v; call cudaGraphSetConditional, (a, b); ret;\n}\n"
#define HEAD(name) \
	".visible .entry " name "(.param .u64 p, .param .u64 h, .param .u32 m, .param .u32 n)\n{\n" \
	".reg .u64 %p, %h; .reg .u32 %v, %m, %n; .param .b64 a; .param .b32 b;\n" \
	"ld.param.u64 %p, [p]; ld.param.u64 %h, [h]; ld.param.u32 %m, [m]; ld.param.u32 %n, [n]; ld.global.u32 %v, [%p];\n"

// step: *p = *p * m + n. pick: the condition is *p / 8 % m. begin: p[i] = n, true if that is not 0.
// again: p[i] counts down, true while it is not 0.
static const char ptx[] = ".version 8.3\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	HEAD("step") "mad.lo.u32 %v, %v, %m, %n; st.global.u32 [%p], %v; ret;\n}\n"
	HEAD("pick") "shr.u32 %v, %v, 3; rem.u32 %v, %v, %m; " CALL_SET
	HEAD("begin") "st.global.u32 [%p], %n; mov.u32 %v, %n; " CALL_SET
	HEAD("again") "sub.u32 %v, %v, 1; st.global.u32 [%p], %v; " CALL_SET;

enum { DEPTH = 3, PROGRAMS = 8, COUNTERS = 1 << 14 };

static CUcontext context;
static CUfunction step, pick, begin, again;
static CUdeviceptr data;
static unsigned state, counters;

static unsigned some(unsigned n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 16) % n;
}

static CUgraphNode kernel(CUgraph graph, CUgraphNode after, CUfunction f, unsigned word, CUgraphConditionalHandle h, unsigned m, unsigned n)
{
	CUgraphNode node;
	CUdeviceptr p = data + 4 * word;
	void *arguments[] = {&p, &h, &m, &n};
	CUDA_KERNEL_NODE_PARAMS k = {.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments};
	CHECK(cuGraphAddKernelNode(&node, graph, after ? &after : NULL, after != NULL, &k));
	return node;
}

static CUgraphNode conditional(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle h, int type, unsigned size, CUgraph *bodies)
{
	CUgraphNode node;
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	p.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){.handle = h, .type = type, .size = size, .ctx = context};
	CHECK(cuGraphAddNode(&node, graph, after ? &after : NULL, after != NULL, &p));
	memcpy(bodies, p.conditional.phGraph_out, size * sizeof *bodies);
	return node;
}

// add appends random work to a graph, and do does the same with numbers: both take the same
// random numbers where the graph is made, and do skips what is not run.
struct item {
	enum { STEP, CHOICE, LOOP, END } kind;
	unsigned m, n;
	struct item *bodies[4];
};

static struct item *imagine(int depth)
{
	unsigned count = 1 + some(4);
	struct item *all = calloc(count + 1, sizeof *all);
	for (unsigned i = 0; i < count; i++) {
		unsigned kind = depth < DEPTH ? some(4) : 0;
		all[i] = (struct item){.kind = kind < 2 ? STEP : kind == 2 ? CHOICE : LOOP, .m = 2 * some(50) + 3, .n = some(1000)};
		if (all[i].kind == CHOICE)
			all[i].m = 1 + some(4);
		if (all[i].kind == LOOP)
			all[i].n = some(4), all[i].m = 1;
		for (unsigned k = 0; all[i].kind != STEP && k < all[i].m; k++)
			all[i].bodies[k] = imagine(depth + 1);
	}
	all[count].kind = END;
	return all;
}

static void add(CUgraph root, CUgraph graph, CUgraphNode last, const struct item *all)
{
	for (; all->kind != END; all++) {
		CUgraphConditionalHandle h = 0;
		CUgraph bodies[4];
		if (all->kind == STEP) {
			last = kernel(graph, last, step, 0, 0, all->m, all->n);
			continue;
		}
		CHECK(cuGraphConditionalHandleCreate(&h, some(2) ? root : graph, context, some(2), some(2)));
		if (all->kind == LOOP) {
			unsigned counter = 1 + counters++ % (COUNTERS - 1);
			last = kernel(graph, last, begin, counter, h, 0, all->n);
			last = conditional(graph, last, h, CU_GRAPH_COND_TYPE_WHILE, 1, bodies);
			add(root, bodies[0], kernel(bodies[0], NULL, again, counter, h, 0, 0), all->bodies[0]);
			continue;
		}
		// Two bodies are sometimes those of an if with an else, of which the first is for 1.
		int like_if = all->m == 2 && some(2);
		last = kernel(graph, last, pick, 0, h, all->m == 1 ? 2 : all->m, 0);
		last = conditional(graph, last, h, like_if ? CU_GRAPH_COND_TYPE_IF : CU_GRAPH_COND_TYPE_SWITCH, all->m, bodies);
		for (unsigned k = 0; k < all->m; k++)
			add(root, bodies[like_if ? 1 - k : k], NULL, all->bodies[k]);
	}
}

static unsigned run(const struct item *all, unsigned v)
{
	for (; all->kind != END; all++) {
		if (all->kind == STEP)
			v = v * all->m + all->n;
		for (unsigned k = 0; all->kind == LOOP && k < all->n; k++)
			v = run(all->bodies[0], v);
		unsigned k = v / 8 % (all->m == 1 ? 2 : all->m);
		if (all->kind == CHOICE && k < all->m)
			v = run(all->bodies[k], v);
	}
	return v;
}

static void random_programs(CUstream stream)
{
	for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
		CUgraph graph;
		CUgraphExec exec;
		unsigned want = seed, got;
		state = seed * 7919, counters = 0;
		struct item *all = imagine(0); // it stays: the program is short
		CHECK(cuGraphCreate(&graph, 0));
		add(graph, graph, NULL, all);
		CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		CHECK(cuMemcpyHtoD(data, &want, 4));
		CHECK(cuCtxSynchronize()); // the stream does not wait for the copy
		for (int launch = 0; launch < 3; launch++) {
			want = run(all, want);
			CHECK(cuGraphLaunch(exec, stream));
		}
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuMemcpyDtoH(&got, data, 4));
		if (got != want)
			printf("program %u: %u and not %u\n", seed, got, want), exit(1);
		CHECK(cuGraphExecDestroy(exec));
		CHECK(cuGraphDestroy(graph));
	}
}

// forever begins a loop without end, and waits until it has run a few times.
static void forever(CUstream stream, CUstream other)
{
	CUgraph graph, body;
	CUgraphExec exec;
	CUgraphConditionalHandle h;
	unsigned n = 0;
	CHECK(cuMemcpyHtoD(data, &n, 4));
	CHECK(cuCtxSynchronize());
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphConditionalHandleCreate(&h, graph, context, 1, 1));
	conditional(graph, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	kernel(body, NULL, step, 0, 0, 1, 1);
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, stream));
	while (n < 5) {
		CHECK(cuMemcpyDtoHAsync(&n, data, 4, other));
		CHECK(cuStreamSynchronize(other));
	}
	if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
		printf("the loop has ended\n"), exit(1);
}

static void start(CUstream *stream, CUstream *other)
{
	CUmodule module;
	CHECK(cuCtxCreate(&context, 0, 0));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&step, module, "step"));
	CHECK(cuModuleGetFunction(&pick, module, "pick"));
	CHECK(cuModuleGetFunction(&begin, module, "begin"));
	CHECK(cuModuleGetFunction(&again, module, "again"));
	CHECK(cuMemAlloc(&data, 4 * COUNTERS));
	CHECK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(other, CU_STREAM_NON_BLOCKING));
}

int main(void)
{
	CUstream stream, other;
	CHECK(cuInit(0));
	start(&stream, &other);
	random_programs(stream);
	forever(stream, other);
	CHECK(cuCtxDestroy(context));
	start(&stream, &other);
	random_programs(stream);
	forever(stream, other);
	printf("conditions: PASS\n");
	return 0; // while the loop runs
}
