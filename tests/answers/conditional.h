// Questions about conditional nodes of graphs and about edges with ports.
#pragma once
#include "ask.h"

static const char conditions[] = ".version 8.3\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry set(.param .u64 h, .param .u32 v)\n{\n\t.reg .u64 %h;\n\t.reg .u32 %v;\n\t.param .b64 a;\n\t.param .b32 b;\n"
	"\tld.param.u64 %h, [h];\n\tld.param.u32 %v, [v];\n\tst.param.b64 [a], %h;\n\tst.param.b32 [b], %v;\n\tcall cudaGraphSetConditional, (a, b);\n\tret;\n}\n"
	".visible .entry add(.param .u64 p, .param .u32 n)\n{\n\t.reg .u64 %p;\n\t.reg .u32 %n;\n"
	"\tld.param.u64 %p, [p];\n\tld.param.u32 %n, [n];\n\tred.global.add.u32 [%p], %n;\n\tret;\n}\n"
	".visible .entry down(.param .u64 p, .param .u64 h)\n{\n\t.reg .u64 %p, %h;\n\t.reg .u32 %n;\n\t.param .b64 a;\n\t.param .b32 b;\n"
	"\tld.param.u64 %p, [p];\n\tld.param.u64 %h, [h];\n\tld.global.u32 %n, [%p];\n\tsub.u32 %n, %n, 1;\n\tst.global.u32 [%p], %n;\n"
	"\tst.param.b64 [a], %h;\n\tst.param.b32 [b], %n;\n\tcall cudaGraphSetConditional, (a, b);\n\tret;\n}\n";

enum { IF, WHILE, SWITCH };

static struct { void *ctx, *set, *add, *down, *stream; u64 counts; } cond;

// CUgraphNodeParams of a conditional node and of a kernel.
struct conditional {
	int type, reserved[3];
	u64 handle;
	unsigned kind, size;
	void **bodies, *ctx;
	char room[216];
};

struct launch_node {
	void *kernel;
	unsigned grid[3], block[3], shared, pad;
	void **params, **extra, *kern, *ctx;
};

static int condition(void *graph, void **node, const void *after, u64 handle, unsigned kind, unsigned size, void **bodies)
{
	struct conditional p = {.type = 13, .handle = handle, .kind = kind, .size = size, .ctx = cond.ctx};
	int r = CALL(cuGraphAddNode_v2, node, graph, after ? &after : NULL, NULL, (u64)(after != NULL), &p);
	for (unsigned i = 0; r == 0 && bodies && i < size; i++)
		bodies[i] = p.bodies[i];
	return r;
}

static void *kernel_in(void *graph, const void *after, void *kernel, u64 a, u64 b)
{
	void *node = NULL, *params[] = {&a, &b};
	struct launch_node k = {.kernel = kernel, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
	MUST(cuGraphAddKernelNode_v2, &node, graph, after ? &after : NULL, (u64)(after != NULL), &k);
	return node;
}

static void *graph_with(u64 *handle, unsigned value, unsigned flags)
{
	void *graph;
	MUST(cuGraphCreate, &graph, 0);
	MUST(cuGraphConditionalHandleCreate, handle, graph, cond.ctx, value, flags);
	return graph;
}

// run asks what the launches of a graph count in three words; a fourth counts down from left.
static void run(const char *name, void *graph, int times, int left)
{
	void *exec;
	int counts[4] = {0, 0, 0, left}, r = CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0);
	if (r) {
		printf("cond-%s instantiate %d\n", name, r);
		return;
	}
	MUST(cuMemcpyHtoD_v2, cond.counts, counts, (u64)16);
	MUST(cuCtxSynchronize);
	for (int i = 1; i <= times; i++) {
		int launched = CALL(cuGraphLaunch, exec, cond.stream), done = CALL(cuStreamSynchronize, cond.stream);
		MUST(cuMemcpyDtoH_v2, counts, cond.counts, (u64)16);
		printf("cond-%s-%d %d %d %d %d %d\n", name, i, launched, done, counts[0], counts[1], counts[2]);
	}
	MUST(cuGraphExecDestroy, exec);
}

static void handles_and_nodes(void)
{
	void *graph, *other, *node, *bodies[4], *exec, *x;
	u64 h, h2;
	int type = 0;
	struct conditional p = {.type = 13, .kind = IF, .size = 1};
	MUST(cuGraphCreate, &graph, 0);
	MUST(cuGraphCreate, &other, 0);
	ASK("cond-handle-null-graph", CALL(cuGraphConditionalHandleCreate, &h, NULL, cond.ctx, 0, 0));
	ASK("cond-handle-null-out", CALL(cuGraphConditionalHandleCreate, NULL, graph, cond.ctx, 0, 0));
	ASK("cond-handle-null-context", CALL(cuGraphConditionalHandleCreate, &h, graph, NULL, 0, 0));
	ASK("cond-handle-flags-2", CALL(cuGraphConditionalHandleCreate, &h, graph, cond.ctx, 0, 2));
	ANSWER("cond-handle", CALL(cuGraphConditionalHandleCreate, &h, graph, cond.ctx, 7, 0), h);
	ANSWER("cond-handle-second", CALL(cuGraphConditionalHandleCreate, &h2, graph, cond.ctx, 0, 1), h2);
	ASK("cond-unused-handle", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0));
	ASK("cond-size-0", condition(graph, &node, NULL, h, IF, 0, NULL));
	ASK("cond-if-size-3", condition(graph, &node, NULL, h, IF, 3, NULL));
	ASK("cond-while-size-2", condition(graph, &node, NULL, h, WHILE, 2, NULL));
	ASK("cond-switch-size-0", condition(graph, &node, NULL, h, SWITCH, 0, NULL));
	ASK("cond-type-3", condition(graph, &node, NULL, h, 3, 1, NULL));
	ASK("cond-handle-12345", condition(graph, &node, NULL, 12345, IF, 1, NULL));
	ASK("cond-handle-0", condition(graph, &node, NULL, 0, IF, 1, NULL));
	ASK("cond-handle-of-another-graph", condition(other, &node, NULL, h, IF, 1, NULL));
	p.handle = h;
	ASK("cond-node-null-context", CALL(cuGraphAddNode_v2, &node, graph, NULL, NULL, (u64)0, &p));
	ASK("cond-node", condition(graph, &node, NULL, h, IF, 1, bodies));
	ASK("cond-handle-used-twice", condition(graph, &x, NULL, h, IF, 1, NULL));
	ANSWER("cond-node-type", CALL(cuGraphNodeGetType, node, &type), type);
	ASK("cond-clone", CALL(cuGraphClone, &x, graph));
	ASK("cond-child", CALL(cuGraphAddChildGraphNode, &x, other, NULL, (u64)0, graph));
	ASK("cond-child-of-node", CALL(cuGraphChildGraphNodeGetGraph, node, &x));
	ASK("cond-clone-body", CALL(cuGraphClone, &x, bodies[0]));
	ASK("cond-child-of-body", CALL(cuGraphAddChildGraphNode, &x, other, NULL, (u64)0, bodies[0]));
	ASK("cond-instantiate-body", CALL(cuGraphInstantiateWithFlags, &x, bodies[0], (u64)0));
	ASK("cond-destroy-body", CALL(cuGraphDestroy, bodies[0]));
	p.ctx = cond.ctx;
	ASK("cond-node-set-params", CALL(cuGraphNodeSetParams, node, &p));
	ASK("cond-destroy-node", CALL(cuGraphDestroyNode, node));
	ASK("cond-after-destroyed-node", CALL(cuGraphInstantiateWithFlags, &x, graph, (u64)0));
	ASK("cond-handle-again", condition(graph, &node, NULL, h, IF, 1, bodies));
	ASK("cond-destroy-graph", CALL(cuGraphDestroy, graph));
	ASK("cond-body-after-graph", CALL(cuGraphDestroy, bodies[0]));
}

// conditions_met asks what conditional nodes run.
static void conditions_met(void)
{
	void *graph, *node, *k, *bodies[4], *inner[2];
	u64 h, h2;
	char name[64];
	for (unsigned flag = 0; flag < 2; flag++) {
		graph = graph_with(&h, 1, flag);
		MUST(cuGraphAddEmptyNode, &k, graph, NULL, (u64)0);
		node = kernel_in(graph, k, cond.set, h, 0x80000000);
		(void)condition(graph, &node, node, h, IF, 2, bodies);
		kernel_in(bodies[0], NULL, cond.add, cond.counts, 1);
		kernel_in(bodies[1], NULL, cond.add, cond.counts + 4, 1);
		kernel_in(graph, node, cond.set, h, 0);
		snprintf(name, sizeof name, "if-set-flag-%u", flag);
		run(name, graph, 2, 0);
	}
	for (unsigned value = 0; value < 3; value++) {
		graph = graph_with(&h, value, 1);
		(void)condition(graph, &node, NULL, h, IF, 2, bodies);
		kernel_in(bodies[0], NULL, cond.add, cond.counts, 1);
		kernel_in(bodies[1], NULL, cond.add, cond.counts + 4, 1);
		snprintf(name, sizeof name, "if-else-%u", value);
		run(name, graph, 2, 0);
	}
	for (unsigned value = 0; value < 4; value++) {
		graph = graph_with(&h, value, 1);
		(void)condition(graph, &node, NULL, h, SWITCH, 3, bodies);
		for (int i = 0; i < 3; i++)
			kernel_in(bodies[i], NULL, cond.add, cond.counts + 4 * i, 1);
		snprintf(name, sizeof name, "switch-%u", value);
		run(name, graph, 1, 0);
	}
	graph = graph_with(&h, 1, 1);
	(void)condition(graph, &node, NULL, h, WHILE, 1, bodies);
	k = kernel_in(bodies[0], NULL, cond.down, cond.counts + 12, h);
	kernel_in(bodies[0], k, cond.add, cond.counts, 1);
	kernel_in(graph, node, cond.add, cond.counts + 4, 1);
	run("while-5", graph, 1, 5);
	for (int of_body = 0; of_body < 2; of_body++) {
		graph = graph_with(&h, 1, 1);
		(void)condition(graph, &node, NULL, h, WHILE, 1, bodies);
		k = kernel_in(bodies[0], NULL, cond.down, cond.counts + 12, h);
		ASK(of_body ? "cond-handle-of-body" : "cond-handle-of-root", CALL(cuGraphConditionalHandleCreate, &h2, of_body ? bodies[0] : graph, cond.ctx, 1, 1));
		ASK(of_body ? "cond-node-of-body" : "cond-node-in-body", condition(bodies[0], &node, k, h2, IF, 1, inner));
		kernel_in(inner[0], NULL, cond.add, cond.counts, 1);
		kernel_in(bodies[0], node, cond.set, h2, 0);
		run(of_body ? "nested-handle-of-body" : "nested-handle-of-root", graph, 1, 3);
	}
	graph = graph_with(&h, 1, 1);
	(void)condition(graph, &node, NULL, h, IF, 1, bodies);
	MUST(cuGraphConditionalHandleCreate, &h2, bodies[0], cond.ctx, 1, 1);
	ASK("cond-handle-of-body-in-root", condition(graph, &node, NULL, h2, IF, 1, inner));
	run("empty-body", graph, 1, 0);
}

// body_with asks whether a body may have a node.
static void body_with(const char *name, int what)
{
	void *graph, *node, *bodies[1], *child, *made = NULL, *pinned;
	static int word;
	u64 h, copy[25] = {[4] = 2, [6] = cond.counts, [22] = 4, [23] = 1, [24] = 1};
	struct { u64 at, pitch; unsigned value, bytes; u64 width, height; } fill = {cond.counts, 0, 1, 4, 1, 1};
	struct { void *f, *data; } host = {(void *)body_with, NULL};
	struct { int type, handles, location, device; void *security; u64 most; unsigned char usage[56]; const void *accesses; u64 count, bytes, address; } memory = {.type = 1, .location = 1, .bytes = 64};
	struct { u64 width, height; int format; unsigned channels; } array = {16, 0, 0x20, 1};
	struct { void *ctx; unsigned count, pad; void *ops; unsigned flags; } batch = {.ctx = cond.ctx, .count = 1};
	struct { int op, pad; u64 at, value; unsigned flags; char room[36]; } write = {.op = 2, .at = cond.counts, .value = 1};
	char question[64];
	int r = 0;
	graph = graph_with(&h, 1, 1);
	(void)condition(graph, &node, NULL, h, IF, 1, bodies);
	switch (what) {
	case 0: r = CALL(cuGraphAddHostNode, &made, bodies[0], NULL, (u64)0, &host); break;
	case 1: MUST(cuEventCreate, &child, 0); r = CALL(cuGraphAddEventRecordNode, &made, bodies[0], NULL, (u64)0, child); break;
	case 2: MUST(cuEventCreate, &child, 0); r = CALL(cuGraphAddEventWaitNode, &made, bodies[0], NULL, (u64)0, child); break;
	case 3: r = CALL(cuGraphAddMemAllocNode, &made, bodies[0], NULL, (u64)0, &memory); break;
	case 4:
		MUST(cuGraphCreate, &child, 0);
		MUST(cuGraphAddMemsetNode, &made, child, NULL, (u64)0, &fill, cond.ctx);
		r = CALL(cuGraphAddChildGraphNode, &made, bodies[0], NULL, (u64)0, child);
		break;
	case 5: r = CALL(cuGraphAddMemsetNode, &made, bodies[0], NULL, (u64)0, &fill, cond.ctx); break;
	case 6: copy[15] = 1, copy[16] = (u64)&word; break;
	case 7: MUST(cuMemAllocHost_v2, &pinned, (u64)64); copy[15] = 1, copy[16] = (u64)pinned; break;
	case 8: copy[15] = 2, copy[17] = cond.counts + 4; break;
	case 9: MUST(cuArrayCreate_v2, &child, &array); copy[15] = 3, copy[18] = (u64)child; break;
	case 10: batch.ops = &write, r = CALL(cuGraphAddBatchMemOpNode, &made, bodies[0], NULL, (u64)0, &batch); break;
	case 11:
		MUST(cuGraphCreate, &child, 0);
		MUST(cuGraphAddHostNode, &made, child, NULL, (u64)0, &host);
		r = CALL(cuGraphAddChildGraphNode, &made, bodies[0], NULL, (u64)0, child);
		break;
	}
	if (copy[15])
		r = CALL(cuGraphAddMemcpyNode, &made, bodies[0], NULL, (u64)0, copy, cond.ctx);
	snprintf(question, sizeof question, "cond-body-%s", name);
	ASK(question, r);
	snprintf(question, sizeof question, "body-%s", name);
	run(question, graph, 1, 0);
}

static void bodies_that_may_be(void)
{
	static const char *const names[] = {"host", "record", "wait", "alloc", "child", "memset", "copy-to-host", "copy-to-pinned", "copy", "copy-to-array", "memop", "child-with-host"};
	for (int i = 0; i < 12; i++)
		body_with(names[i], i);
}

static void update(const char *name, void *exec, void *graph)
{
	int result[6] = {0};
	printf("cond-update-%s %d", name, CALL(cuGraphExecUpdate_v2, exec, graph, result));
	printf(" %d\n", result[0]);
}

static void execs(void)
{
	void *graph, *node, *bodies[2], *exec, *other, *x;
	u64 h, h2;
	int counts[3] = {0};
	struct conditional p = {.type = 13, .kind = IF, .size = 1, .ctx = cond.ctx};
	unsigned enabled;
	graph = graph_with(&h, 1, 1);
	(void)condition(graph, &node, NULL, h, IF, 1, bodies);
	kernel_in(bodies[0], NULL, cond.add, cond.counts, 1);
	ASK("cond-device-launch", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)4));
	MUST(cuGraphInstantiateWithFlags, &exec, graph, (u64)0);
	ASK("cond-second-exec", CALL(cuGraphInstantiateWithFlags, &x, graph, (u64)0));
	ASK("cond-get-enabled", CALL(cuGraphNodeGetEnabled, exec, node, &enabled));
	ASK("cond-disable", CALL(cuGraphNodeSetEnabled, exec, node, 0));
	p.handle = h;
	ASK("cond-exec-set-params", CALL(cuGraphExecNodeSetParams, exec, node, &p));
	update("same", exec, graph);
	for (int i = 0; i < 6; i++) {
		static const char *const names[] = {"other", "while", "else", "value", "flags", "more"};
		other = graph_with(&h2, i == 3 ? 0 : 1, i == 4 ? 0 : 1);
		(void)condition(other, &node, NULL, h2, i == 1 ? WHILE : IF, i == 2 ? 2 : 1, bodies);
		kernel_in(bodies[0], NULL, cond.add, cond.counts + 4, 1);
		if (i == 5)
			kernel_in(bodies[0], NULL, cond.add, cond.counts + 8, 1);
		update(names[i], exec, other);
	}
	MUST(cuMemcpyHtoD_v2, cond.counts, counts, (u64)12);
	MUST(cuCtxSynchronize);
	MUST(cuGraphLaunch, exec, cond.stream);
	MUST(cuStreamSynchronize, cond.stream);
	MUST(cuMemcpyDtoH_v2, counts, cond.counts, (u64)12);
	printf("cond-updated %d %d %d\n", counts[0], counts[1], counts[2]);
	MUST(cuStreamBeginCapture_v2, cond.stream, 0);
	ASK("cond-capture-launch", CALL(cuGraphLaunch, exec, cond.stream));
	ASK("cond-capture-launch-end", CALL(cuStreamEndCapture, cond.stream, &x));
	graph = graph_with(&h, 1, 1);
	(void)condition(graph, &node, NULL, h, IF, 1, bodies);
	ASK("cond-capture-to-body", CALL(cuStreamBeginCaptureToGraph, cond.stream, bodies[0], NULL, NULL, (u64)0, 0));
	MUST(cuMemsetD32Async, cond.counts, 5, (u64)1, cond.stream);
	ANSWER("cond-capture-to-body-end", CALL(cuStreamEndCapture, cond.stream, &x), x == bodies[0]);
	run("captured-body", graph, 1, 0);
}

// ports asks which data edges may have.
static void ports(void)
{
	void *graph, *a, *b, *e, *from[4], *to[4];
	unsigned char data[4][8];
	u64 n = 0;
	MUST(cuGraphCreate, &graph, 0);
	a = kernel_in(graph, NULL, cond.add, cond.counts, 1);
	b = kernel_in(graph, NULL, cond.add, cond.counts, 1);
	MUST(cuGraphAddEmptyNode, &e, graph, NULL, (u64)0);
	for (int i = 0; i < 12; i++) {
		static const unsigned char kinds[12][3] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {0, 0, 2}, {1, 0, 0}, {2, 0, 0}, {3, 0, 1}, {0, 1, 0}, {1, 1, 1}, {2, 0, 3}, {0, 0, 3}};
		char question[64];
		memset(data, 0, sizeof data);
		memcpy(data[0], kinds[i], 3);
		snprintf(question, sizeof question, "port-%d-%d-%d", kinds[i][0], kinds[i][1], kinds[i][2]);
		ASK(question, CALL(cuGraphAddDependencies_v2, graph, &a, &b, data, (u64)1));
		n = 4;
		memset(data, 9, sizeof data);
		snprintf(question, sizeof question, "port-lossy-%d", i);
		ASK(question, CALL(cuGraphGetEdges, graph, NULL, NULL, &n));
		n = 4;
		snprintf(question, sizeof question, "port-lossy-list-%d", i);
		ASK(question, CALL(cuGraphGetEdges, graph, from, to, &n));
		n = 4;
		snprintf(question, sizeof question, "port-edges-%d", i);
		int r = CALL(cuGraphGetEdges_v2, graph, from, to, data, &n);
		printf("%s %d %d %d %d %d\n", question, r, (int)n, data[0][0], data[0][1], data[0][2]);
		memset(data, 0, sizeof data);
		snprintf(question, sizeof question, "port-remove-plain-%d", i);
		ASK(question, CALL(cuGraphRemoveDependencies, graph, &a, &b, (u64)1));
		memcpy(data[0], kinds[i], 3);
		snprintf(question, sizeof question, "port-remove-%d", i);
		ASK(question, CALL(cuGraphRemoveDependencies_v2, graph, &a, &b, data, (u64)1));
	}
	memset(data, 0, sizeof data);
	data[0][0] = 1, data[0][2] = 1;
	ASK("port-from-empty", CALL(cuGraphAddDependencies_v2, graph, &e, &a, data, (u64)1));
	ASK("port-to-empty", CALL(cuGraphAddDependencies_v2, graph, &a, &e, data, (u64)1));
	data[0][3] = 1;
	ASK("port-reserved", CALL(cuGraphAddDependencies_v2, graph, &a, &b, data, (u64)1));
	data[0][3] = 0;
	MUST(cuGraphAddDependencies_v2, graph, &a, &b, data, (u64)1);
	run("port", graph, 1, 0);
	data[0][0] = 0, data[0][2] = 0;
	ASK("port-second-edge", CALL(cuGraphAddDependencies_v2, graph, &a, &b, data, (u64)1));
	data[0][2] = 2, data[0][0] = 1;
	ASK("port-third-edge", CALL(cuGraphAddDependencies_v2, graph, &a, &b, data, (u64)1));
	n = 0;
	ANSWER("port-dependents", CALL(cuGraphNodeGetDependentNodes, a, NULL, &n), n);
	ANSWER("port-dependents-2", CALL(cuGraphNodeGetDependentNodes_v2, a, NULL, NULL, &n), n);
	n = 4;
	ASK("port-dependents-list", CALL(cuGraphNodeGetDependentNodes, a, from, &n));
	n = 4;
	ASK("port-dependencies-list", CALL(cuGraphNodeGetDependencies, b, from, &n));
	ASK("port-clone", CALL(cuGraphClone, &e, graph));
	run("port-edges", graph, 1, 0);
}

static void conditional(const char *unused)
{
	(void)unused;
	void *module;
	cond.ctx = a_context();
	int r = CALL(cuModuleLoadData, &module, conditions);
	ASK("cond-load", r);
	if (r)
		return;
	MUST(cuModuleGetFunction, &cond.set, module, "set");
	MUST(cuModuleGetFunction, &cond.add, module, "add");
	MUST(cuModuleGetFunction, &cond.down, module, "down");
	MUST(cuMemAlloc_v2, &cond.counts, (u64)64);
	MUST(cuStreamCreate, &cond.stream, 1);
	handles_and_nodes();
	conditions_met();
	bodies_that_may_be();
	execs();
	ports();
}
