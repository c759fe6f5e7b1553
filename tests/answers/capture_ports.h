// Questions about the data of edges in captures.
#pragma once
#include "conditional.h"

// captured_edge asks what edge the second node of a graph has from the first.
static void captured_edge(const char *name, void *graph)
{
	void *from[4] = {NULL}, *to[4];
	unsigned char data[4][8] = {{9, 9, 9}};
	u64 n = 4;
	int r = CALL(cuGraphGetEdges_v2, graph, from, to, data, &n);
	printf("%s-edges %d %d %d %d %d\n", name, r, (int)n, data[0][0], data[0][1], data[0][2]);
}

// with_tips captures a kernel, sets the data of the edges from it, and captures one more node.
static void with_tips(const char *name, unsigned char port, unsigned char type, int next)
{
	static unsigned one = 1;
	void *params[] = {&cond.counts, &one}, *graph = NULL, **tips = NULL;
	unsigned char data[8] = {port, 0, type}, (*shown)[8] = NULL;
	char question[64];
	int status;
	u64 id, n = 0;
	MUST(cuStreamBeginCapture_v2, cond.stream, 0);
	MUST(cuLaunchKernel, cond.add, 1, 1, 1, 1, 1, 1, 0, cond.stream, params, NULL);
	MUST(cuStreamGetCaptureInfo_v2, cond.stream, &status, &id, &graph, &tips, &n);
	void *node = tips[0];
	snprintf(question, sizeof question, "%s-update", name);
	ASK(question, CALL(cuStreamUpdateCaptureDependencies_v2, cond.stream, &node, data, (u64)1, 1));
	snprintf(question, sizeof question, "%s-info-2", name);
	ASK(question, CALL(cuStreamGetCaptureInfo_v2, cond.stream, &status, &id, &graph, &tips, &n));
	snprintf(question, sizeof question, "%s-info-3", name);
	int r = CALL(cuStreamGetCaptureInfo_v3, cond.stream, &status, &id, &graph, &tips, &shown, &n);
	printf("%s %d %d %d %d\n", question, r, (int)n, r || !n || !shown ? 0 : shown[0][0], r || !n || !shown ? 0 : shown[0][2]);
	snprintf(question, sizeof question, "%s-next", name);
	if (next == 0)
		ASK(question, CALL(cuLaunchKernel, cond.add, 1, 1, 1, 1, 1, 1, 0, cond.stream, params, NULL));
	if (next == 1)
		ASK(question, CALL(cuMemsetD32Async, cond.counts, 5, (u64)1, cond.stream));
	snprintf(question, sizeof question, "%s-end", name);
	graph = NULL;
	ASK(question, CALL(cuStreamEndCapture, cond.stream, &graph));
	if (graph)
		captured_edge(name, graph);
}

static void capture_ports(const char *unused)
{
	(void)unused;
	static unsigned one = 1;
	void *module, *graph = NULL, *node, *params[] = {&cond.counts, &one};
	struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned n; } config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 1};
	struct { unsigned id, pad; int value[16]; } attribute = {6, 0, {1}};
	unsigned char data[8] = {1, 0, 1};
	cond.ctx = a_context();
	MUST(cuModuleLoadData, &module, conditions);
	MUST(cuModuleGetFunction, &cond.add, module, "add");
	MUST(cuMemAlloc_v2, &cond.counts, (u64)64);
	MUST(cuStreamCreate, &cond.stream, 1);
	with_tips("tip-plain", 0, 0, 0);
	with_tips("tip-programmatic", 1, 1, 0);
	with_tips("tip-launch", 2, 1, 0);
	with_tips("tip-before-memset", 1, 1, 1);
	with_tips("tip-wrong", 0, 1, 0);
	MUST(cuGraphCreate, &graph, 0);
	node = kernel_in(graph, NULL, cond.add, cond.counts, 1);
	ASK("tip-begin", CALL(cuStreamBeginCaptureToGraph, cond.stream, graph, &node, data, (u64)1, 0));
	ASK("tip-begin-next", CALL(cuLaunchKernel, cond.add, 1, 1, 1, 1, 1, 1, 0, cond.stream, params, NULL));
	ASK("tip-begin-end", CALL(cuStreamEndCapture, cond.stream, NULL));
	captured_edge("tip-begin", graph);
	MUST(cuStreamBeginCapture_v2, cond.stream, 0);
	MUST(cuLaunchKernel, cond.add, 1, 1, 1, 1, 1, 1, 0, cond.stream, params, NULL);
	config.stream = cond.stream, config.attributes = &attribute;
	ASK("tip-programmatic-launch", CALL(cuLaunchKernelEx, &config, cond.add, params, NULL));
	ASK("tip-programmatic-launch-end", CALL(cuStreamEndCapture, cond.stream, &graph));
	captured_edge("tip-programmatic-launch", graph);
	MUST(cuStreamBeginCapture_v2, cond.stream, 0);
	ASK("tip-end-null", CALL(cuStreamEndCapture, cond.stream, NULL));
	int status = 9;
	ANSWER("tip-end-null-status", CALL(cuStreamIsCapturing, cond.stream, &status), status);
}
