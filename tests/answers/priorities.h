// Questions about priorities of streams, launches and kernel nodes.
#pragma once
#include "ask.h"

static void priorities(const char *unused)
{
	(void)unused;
	static const int asked[] = {1, 0, -1, -5, -6};
	void *stream, *module, *k, *graph, *node, *copy, *params[] = {NULL};
	int value = 99, n = 0;
	struct { void *kernel; unsigned grid[3], block[3], shared, pad; void **params, **extra, *kern, *ctx; } launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned n; } config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 1};
	struct { unsigned id, pad; int value[16]; } attribute = {8, 0, {0}};
	char question[64];
	a_context();
	MUST(cuModuleLoadData, &module, ptx);
	MUST(cuModuleGetFunction, &k, module, "k");
	params[0] = &n;
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		int attributes[16] = {99};
		MUST(cuStreamCreateWithPriority, &stream, 1, asked[i]);
		snprintf(question, sizeof question, "priority-of-stream-%d", asked[i]);
		ANSWER(question, CALL(cuStreamGetPriority, stream, &value), value);
		snprintf(question, sizeof question, "priority-attribute-of-stream-%d", asked[i]);
		ANSWER(question, CALL(cuStreamGetAttribute, stream, 8, attributes), attributes[0]);
		attributes[0] = asked[i];
		snprintf(question, sizeof question, "priority-set-attribute-%d", asked[i]);
		ASK(question, CALL(cuStreamSetAttribute, stream, 8, attributes));
		snprintf(question, sizeof question, "priority-launch-%d", asked[i]);
		attribute.value[0] = asked[i];
		config.attributes = &attribute;
		ASK(question, CALL(cuLaunchKernelEx, &config, k, params, NULL));
		config.stream = stream;
		MUST(cuStreamBeginCapture_v2, stream, 0);
		config.n = i % 2;
		MUST(cuLaunchKernelEx, &config, k, params, NULL);
		config.stream = NULL, config.n = 1;
		MUST(cuStreamEndCapture, stream, &graph);
		u64 one = 1;
		MUST(cuGraphGetNodes, graph, &node, &one);
		attributes[0] = 99;
		snprintf(question, sizeof question, "priority-captured-%d", asked[i]);
		ANSWER(question, CALL(cuGraphKernelNodeGetAttribute, node, 8, attributes), attributes[0]);
		launch.kernel = k, launch.params = params;
		MUST(cuGraphAddKernelNode_v2, &node, graph, NULL, (u64)0, &launch);
		attributes[0] = 99;
		snprintf(question, sizeof question, "priority-of-node-%d", asked[i]);
		ANSWER(question, CALL(cuGraphKernelNodeGetAttribute, node, 8, attributes), attributes[0]);
		attributes[0] = asked[i];
		snprintf(question, sizeof question, "priority-set-node-%d", asked[i]);
		ASK(question, CALL(cuGraphKernelNodeSetAttribute, node, 8, attributes));
		MUST(cuGraphAddKernelNode_v2, &copy, graph, NULL, (u64)0, &launch);
		ASK("priority-copy", CALL(cuGraphKernelNodeCopyAttributes, copy, node));
		attributes[0] = 99;
		snprintf(question, sizeof question, "priority-copied-%d", asked[i]);
		ANSWER(question, CALL(cuGraphKernelNodeGetAttribute, copy, 8, attributes), attributes[0]);
	}
	ANSWER("priority-of-null-stream", CALL(cuStreamGetPriority, NULL, &value), value);
	ANSWER("priority-of-per-thread-stream", CALL(cuStreamGetPriority, (u64)PER_THREAD, &value), value);
}
