// Questions about graphs: nodes that allocate memory, memory operations, user objects; and about
// attributes of streams and lists of kernels.
#pragma once
#include "ask.h"

// CUDA_MEM_ALLOC_NODE_PARAMS.
struct allocation {
	int type, handles, location, device;
	void *security;
	u64 most;
	unsigned char usage[56];
	const int *accesses;
	u64 count, bytes, address;
};

static struct allocation allocation_of(u64 bytes)
{
	return (struct allocation){.type = 1, .location = 1, .bytes = bytes};
}

static int add_allocation(void *graph, struct allocation params)
{
	void *node;
	return CALL(cuGraphAddMemAllocNode, &node, graph, NULL, (u64)0, &params);
}

// A graph that allocates 64 bytes, and frees them if it is asked to.
struct allocating { void *graph, *alloc, *release; u64 address; };

static struct allocating allocating(int frees)
{
	struct allocating g = {0};
	struct allocation params = allocation_of(64);
	MUST(cuGraphCreate, &g.graph, 0);
	MUST(cuGraphAddMemAllocNode, &g.alloc, g.graph, NULL, (u64)0, &params);
	g.address = params.address;
	if (frees)
		MUST(cuGraphAddMemFreeNode, &g.release, g.graph, &g.alloc, (u64)1, g.address);
	return g;
}

static void *instantiated(void *graph, u64 flags)
{
	void *exec;
	MUST(cuGraphInstantiateWithFlags, &exec, graph, flags);
	return exec;
}

static void bad_allocations(void)
{
	void *graph;
	struct allocation p;
	static const int host[] = {2, 0, 3}, far[] = {1, 9, 3}, own[] = {1, 0, 3}, read[] = {1, 0, 1};
	MUST(cuGraphCreate, &graph, 0);
	ASK("mem-node-null", CALL(cuGraphAddMemAllocNode, &p, graph, NULL, (u64)0, NULL));
	p = allocation_of(64), p.type = 0;
	ASK("mem-node-type-0", add_allocation(graph, p));
	p = allocation_of(64), p.type = 2;
	ASK("mem-node-type-2", add_allocation(graph, p));
	p = allocation_of(64), p.handles = 1;
	ASK("mem-node-for-processes", add_allocation(graph, p));
	p = allocation_of(64), p.location = 0;
	ASK("mem-node-nowhere", add_allocation(graph, p));
	p = allocation_of(64), p.device = 99;
	ASK("mem-node-device-99", add_allocation(graph, p));
	ASK("mem-node-no-bytes", add_allocation(graph, allocation_of(0)));
	ASK("mem-node-2-to-the-62", add_allocation(graph, allocation_of((u64)1 << 62)));
	p = allocation_of(64), p.count = 1, p.accesses = own;
	ASK("mem-node-own-access", add_allocation(graph, p));
	p.accesses = read;
	ASK("mem-node-read-access", add_allocation(graph, p));
	p.accesses = host;
	ASK("mem-node-host-access", add_allocation(graph, p));
	p.accesses = far;
	ASK("mem-node-far-access", add_allocation(graph, p));
}

static void refused_graphs(void)
{
	struct allocating g = allocating(1), twin = allocating(1);
	void *other, *node, *exec, *result[3] = {0};
	u64 p = 0;
	struct allocation params;
	MUST(cuGraphCreate, &other, 0);
	ASK("mem-graph-clone", CALL(cuGraphClone, &node, g.graph));
	ASK("mem-graph-child", CALL(cuGraphAddChildGraphNode, &node, other, NULL, (u64)0, g.graph));
	ASK("mem-graph-destroy-node", CALL(cuGraphDestroyNode, g.release));
	ASK("mem-graph-remove-edge", CALL(cuGraphRemoveDependencies, g.graph, &g.alloc, &g.release, (u64)1));
	ASK("mem-free-twice", CALL(cuGraphAddMemFreeNode, &node, g.graph, &g.alloc, (u64)1, g.address));
	ASK("mem-free-within", CALL(cuGraphAddMemFreeNode, &node, other, NULL, (u64)0, g.address + 8));
	ASK("mem-free-null", CALL(cuGraphAddMemFreeNode, &node, other, NULL, (u64)0, (u64)0));
	MUST(cuMemAlloc_v2, &p, (u64)64);
	ASK("mem-free-of-others", CALL(cuGraphAddMemFreeNode, &node, other, NULL, (u64)0, p));
	memset(&params, 0x5a, sizeof params);
	written("mem-node-params", CALL(cuGraphMemAllocNodeGetParams, g.alloc, &params), (unsigned char *)&params, sizeof params);
	ANSWER("mem-node-params-accesses", CALL(cuGraphMemAllocNodeGetParams, g.alloc, &params), params.count);
	ASK("mem-node-params-of-free", CALL(cuGraphMemAllocNodeGetParams, g.release, &params));
	ASK("mem-free-params", CALL(cuGraphMemFreeNodeGetParams, g.release, &p));
	ASK("mem-graph-of-free-alone", CALL(cuGraphAddMemFreeNode, &node, other, NULL, (u64)0, twin.address));
	exec = instantiated(g.graph, 0);
	ASK("mem-graph-second-exec", CALL(cuGraphInstantiateWithFlags, &node, g.graph, (u64)0));
	ASK("mem-graph-update-same", CALL(cuGraphExecUpdate_v2, exec, g.graph, result));
	ASK("mem-graph-update-twin", CALL(cuGraphExecUpdate_v2, exec, twin.graph, result));
	ASK("mem-graph-update-twin-result", (int)(u64)result[0]);
	ASK("mem-launch-of-twin", CALL(cuGraphLaunch, exec, NULL));
	ASK("mem-launch-of-twin-done", CALL(cuCtxSynchronize));
	ASK("mem-graph-destroy-exec", CALL(cuGraphExecDestroy, exec));
	ASK("mem-graph-exec-again", CALL(cuGraphInstantiateWithFlags, &exec, g.graph, (u64)0));
	ASK("mem-graph-add-node-later", CALL(cuGraphAddEmptyNode, &node, g.graph, NULL, (u64)0));
}

static void lives_of_memory(void *stream)
{
	struct allocating g = allocating(0);
	void *exec = instantiated(g.graph, 0), *frees, *node, *auto_exec;
	u64 base = 0, n = 0;
	int type = 0;
	ANSWER("mem-address-before-launch", CALL(cuMemGetAddressRange_v2, &base, &n, g.address), n);
	ANSWER("mem-type-before-launch", CALL(cuPointerGetAttribute, &type, 2, g.address), type);
	ASK("mem-free-before-launch", CALL(cuMemFree_v2, g.address));
	ASK("mem-launch", CALL(cuGraphLaunch, exec, stream));
	ANSWER("mem-address-after-launch", CALL(cuMemGetAddressRange_v2, &base, &n, g.address), n);
	ASK("mem-launch-twice", CALL(cuGraphLaunch, exec, stream));
	MUST(cuStreamSynchronize, stream);
	ASK("mem-fill", CALL(cuMemsetD32_v2, g.address, 5, (u64)16));
	ASK("mem-free", CALL(cuMemFree_v2, g.address));
	ASK("mem-free-again", CALL(cuMemFree_v2, g.address));
	ANSWER("mem-address-after-free", CALL(cuMemGetAddressRange_v2, &base, &n, g.address), n);
	ANSWER("mem-type-after-free", CALL(cuPointerGetAttribute, &type, 2, g.address), type);
	ASK("mem-free-by-graph-unused", CALL(cuGraphCreate, &node, 0) ? 1 : CALL(cuGraphAddMemFreeNode, &auto_exec, node, NULL, (u64)0, g.address));
	ASK("mem-launch-after-free", CALL(cuGraphLaunch, exec, stream));
	ASK("mem-free-async", CALL(cuMemFreeAsync, g.address, stream));
	ASK("mem-free-async-again", CALL(cuMemFreeAsync, g.address, stream));
	ASK("mem-launch-after-free-async", CALL(cuGraphLaunch, exec, stream));
	void *other;
	MUST(cuGraphCreate, &other, 0);
	MUST(cuGraphAddMemFreeNode, &node, other, NULL, (u64)0, g.address);
	frees = instantiated(other, 0);
	ASK("mem-free-by-graph", CALL(cuGraphLaunch, frees, stream));
	ASK("mem-free-by-graph-again", CALL(cuGraphLaunch, frees, stream));
	ASK("mem-launch-after-graph", CALL(cuGraphLaunch, exec, stream));
	MUST(cuStreamSynchronize, stream);
	MUST(cuMemFree_v2, g.address);
	MUST(cuGraphExecDestroy, exec);
	auto_exec = instantiated(g.graph, 1);
	ASK("mem-auto-launch", CALL(cuGraphLaunch, auto_exec, stream));
	ASK("mem-auto-launch-again", CALL(cuGraphLaunch, auto_exec, stream));
	MUST(cuStreamSynchronize, stream);
	MUST(cuGraphExecDestroy, auto_exec);
	MUST(cuGraphDestroy, g.graph);
	ASK("mem-fill-after-graph", CALL(cuMemsetD32_v2, g.address, 5, (u64)16));
	ASK("mem-free-after-graph", CALL(cuMemFree_v2, g.address));
}

static void amounts_of_memory(void *stream)
{
	struct allocating g = allocating(1);
	void *exec = instantiated(g.graph, 0);
	u64 used = 0, reserved = 0, zero = 0, one = 1;
	ASK("mem-amount-4", CALL(cuDeviceGetGraphMemAttribute, 0, 4, &used));
	ASK("mem-amount-null", CALL(cuDeviceGetGraphMemAttribute, 0, 0, NULL));
	MUST(cuGraphLaunch, exec, stream);
	MUST(cuStreamSynchronize, stream);
	ANSWER("mem-used", CALL(cuDeviceGetGraphMemAttribute, 0, 0, &used), used);
	ANSWER("mem-reserved", CALL(cuDeviceGetGraphMemAttribute, 0, 2, &reserved), reserved > 0);
	ASK("mem-set-used", CALL(cuDeviceSetGraphMemAttribute, 0, 0, &zero));
	ASK("mem-set-used-high-1", CALL(cuDeviceSetGraphMemAttribute, 0, 1, &one));
	ASK("mem-set-used-high-0", CALL(cuDeviceSetGraphMemAttribute, 0, 1, &zero));
	ANSWER("mem-used-high", CALL(cuDeviceGetGraphMemAttribute, 0, 1, &used), used);
	ASK("mem-trim", CALL(cuDeviceGraphMemTrim, 0));
	ANSWER("mem-reserved-after-trim", CALL(cuDeviceGetGraphMemAttribute, 0, 2, &reserved), reserved);
	ASK("mem-trim-device-99", CALL(cuDeviceGraphMemTrim, 99));
	ASK("mem-launch-after-trim", CALL(cuGraphLaunch, exec, stream));
	MUST(cuStreamSynchronize, stream);
}

static void captured_memory(void *stream)
{
	u64 own = 0, p = 0, none = 1;
	void *graph = NULL, *exec;
	MUST(cuMemAllocAsync, &own, (u64)64, stream);
	MUST(cuStreamSynchronize, stream);
	MUST(cuStreamBeginCapture_v2, stream, 0);
	ANSWER("capture-mem-none", CALL(cuMemAllocAsync, &none, (u64)0, stream), none);
	ASK("capture-mem", CALL(cuMemAllocAsync, &p, (u64)64, stream));
	ASK("capture-mem-fill", CALL(cuMemsetD32Async, p, 1, (u64)16, stream));
	ASK("capture-mem-free", CALL(cuMemFreeAsync, p, stream));
	ASK("capture-mem-free-again", CALL(cuMemFreeAsync, p, stream));
	ASK("capture-mem-end", CALL(cuStreamEndCapture, stream, &graph));
	if (graph) {
		exec = instantiated(graph, 0);
		MUST(cuStreamBeginCapture_v2, stream, 0);
		ASK("capture-mem-launch", CALL(cuGraphLaunch, exec, stream));
		ASK("capture-mem-launch-end", CALL(cuStreamEndCapture, stream, &graph));
	}
	MUST(cuStreamBeginCapture_v2, stream, 0);
	ASK("capture-free-of-pool", CALL(cuMemFreeAsync, own, stream));
	ASK("capture-free-of-pool-end", CALL(cuStreamEndCapture, stream, &graph));
}

// A stream that has joined a capture and is destroyed.
static void dropped_streams(void)
{
	void *origin, *fork, *event, *graph;
	u64 memory;
	static const char *const questions[] = {"capture-drop-joined", "capture-drop-unjoined", "capture-drop-idle", "capture-drop-origin"};
	MUST(cuMemAlloc_v2, &memory, (u64)64);
	MUST(cuEventCreate, &event, 0);
	for (int i = 0; i < 4; i++) {
		char question[64];
		graph = NULL;
		MUST(cuStreamCreate, &origin, 1);
		MUST(cuStreamCreate, &fork, 1);
		MUST(cuStreamBeginCapture_v2, origin, 0);
		MUST(cuMemsetD32Async, memory, 1, (u64)1, origin);
		MUST(cuEventRecord, event, origin);
		MUST(cuStreamWaitEvent, fork, event, 0);
		if (i != 2)
			MUST(cuMemsetD32Async, memory + 4, 1, (u64)1, fork);
		if (i == 0) {
			MUST(cuEventRecord, event, fork);
			MUST(cuStreamWaitEvent, origin, event, 0);
		}
		ASK(questions[i], CALL(cuStreamDestroy_v2, i == 3 ? origin : fork));
		snprintf(question, sizeof question, "%s-end", questions[i]);
		ASK(question, CALL(cuStreamEndCapture, i == 3 ? fork : origin, &graph));
		snprintf(question, sizeof question, "%s-other", questions[i]);
		ASK(question, CALL(cuStreamSynchronize, i == 3 ? fork : origin));
	}
}

static void nothing_of(void *value) { (void)value; }

static void user_objects(void)
{
	void *o, *graph, *exec;
	MUST(cuGraphCreate, &graph, 0);
	ASK("object-flags-0", CALL(cuUserObjectCreate, &o, NULL, nothing_of, 1, 0));
	ASK("object-flags-3", CALL(cuUserObjectCreate, &o, NULL, nothing_of, 1, 3));
	ASK("object-refs-0", CALL(cuUserObjectCreate, &o, NULL, nothing_of, 0, 1));
	ASK("object-refs-2-to-the-31", CALL(cuUserObjectCreate, &o, NULL, nothing_of, 1u << 31, 1));
	ASK("object-no-destructor", CALL(cuUserObjectCreate, &o, NULL, NULL, 1, 1));
	ASK("object", CALL(cuUserObjectCreate, &o, NULL, nothing_of, 1, 1));
	ASK("object-retain-0", CALL(cuUserObjectRetain, o, 0));
	ASK("object-retain", CALL(cuUserObjectRetain, o, 2));
	ASK("object-release-0", CALL(cuUserObjectRelease, o, 0));
	ASK("object-release", CALL(cuUserObjectRelease, o, 1));
	ASK("object-graph", CALL(cuGraphRetainUserObject, graph, o, 1, 0));
	ASK("object-graph-0", CALL(cuGraphRetainUserObject, graph, o, 0, 0));
	ASK("object-graph-flags-2", CALL(cuGraphRetainUserObject, graph, o, 1, 2));
	ASK("object-graph-move", CALL(cuGraphRetainUserObject, graph, o, 1, 1));
	exec = instantiated(graph, 0);
	ASK("object-graph-release-too-many", CALL(cuGraphReleaseUserObject, graph, o, 5));
	ASK("object-graph-release", CALL(cuGraphReleaseUserObject, graph, o, 2));
	ASK("object-graph-destroy", CALL(cuGraphDestroy, graph));
	ASK("object-exec-destroy", CALL(cuGraphExecDestroy, exec));
}

static volatile int destroyed[3];
static void destroys(void *which) { destroyed[(uintptr_t)which]++; }

// counted prints how many destructors of the two objects have run, soon after what could run them.
static void counted(const char *question)
{
	MUST(cuCtxSynchronize);
	usleep(200000); // NVIDIA's run in a thread of their own
	printf("%s %d%d\n", question, destroyed[1], destroyed[2]);
}

// A graph of one node that owns a user object.
static void *owning(u64 memory, uintptr_t which)
{
	struct { u64 to, pitch; unsigned value, size; u64 width, height; } set = {memory, 0, 1, 4, 1, 1};
	void *graph, *node, *object, *ctx;
	MUST(cuCtxGetCurrent, &ctx);
	MUST(cuGraphCreate, &graph, 0);
	MUST(cuGraphAddMemsetNode, &node, graph, NULL, (u64)0, &set, ctx);
	MUST(cuUserObjectCreate, &object, (void *)which, destroys, 1, 1);
	MUST(cuGraphRetainUserObject, graph, object, 1, 1);
	return graph;
}

static void updated_objects(void)
{
	void *first, *second, *exec, *result[3];
	u64 memory;
	MUST(cuMemAlloc_v2, &memory, (u64)64);
	first = owning(memory, 1), second = owning(memory, 2);
	exec = instantiated(first, 0);
	MUST(cuGraphLaunch, exec, NULL);
	MUST(cuGraphDestroy, first);
	counted("objects-graph-destroyed");
	ASK("objects-update", CALL(cuGraphExecUpdate_v2, exec, second, result));
	counted("objects-updated");
	MUST(cuGraphDestroy, second);
	counted("objects-second-destroyed");
	MUST(cuGraphLaunch, exec, NULL);
	counted("objects-launched");
	MUST(cuGraphExecDestroy, exec);
	counted("objects-exec-destroyed");
}

// The graph of a capture that fails, of which the program has a handle.
static void failed_captures(void)
{
	void *stream, *fork, *event, *graph, *result = NULL;
	int status;
	u64 id, n, memory;
	const void *tips;
	MUST(cuMemAlloc_v2, &memory, (u64)64);
	MUST(cuStreamCreate, &stream, 1);
	MUST(cuStreamCreate, &fork, 1);
	MUST(cuEventCreate, &event, 0);
	MUST(cuStreamBeginCapture_v2, stream, 0);
	MUST(cuEventRecord, event, stream);
	MUST(cuStreamWaitEvent, fork, event, 0);
	MUST(cuMemsetD32Async, memory, 1, (u64)1, fork);
	if (CALL(cuStreamGetCaptureInfo_v2, stream, &status, &id, &graph, &tips, &n))
		return;
	ASK("failed-capture-nodes-before", CALL(cuGraphGetNodes, graph, NULL, &n));
	ASK("failed-capture-end", CALL(cuStreamEndCapture, stream, &result));
	printf("failed-capture-result-is-null %d\n", result == NULL);
	ASK("failed-capture-nodes", CALL(cuGraphGetNodes, graph, NULL, &n));
	ASK("failed-capture-destroy", CALL(cuGraphDestroy, graph));
}

static void operation_nodes(void)
{
	struct { void *ctx; unsigned count; void *operations; unsigned flags; } p = {0}, got;
	struct { unsigned type, pad; u64 address, value; unsigned flags; u64 rest[2]; } op[2] = {{.type = 2}, {.type = 2}};
	void *graph, *node;
	u64 memory;
	MUST(cuGraphCreate, &graph, 0);
	MUST(cuMemAlloc_v2, &memory, (u64)64);
	MUST(cuCtxGetCurrent, &p.ctx);
	op[0].address = op[1].address = memory;
	p.operations = op;
	ASK("operations-0", CALL(cuGraphAddBatchMemOpNode, &node, graph, NULL, (u64)0, &p));
	p.count = 2;
	p.flags = 1;
	ASK("operations-flags-1", CALL(cuGraphAddBatchMemOpNode, &node, graph, NULL, (u64)0, &p));
	p.flags = 0;
	ASK("operations", CALL(cuGraphAddBatchMemOpNode, &node, graph, NULL, (u64)0, &p));
	ANSWER("operations-params", CALL(cuGraphBatchMemOpNodeGetParams, node, &got), got.count);
	p.ctx = NULL;
	ASK("operations-no-context", CALL(cuGraphAddBatchMemOpNode, &node, graph, NULL, (u64)0, &p));
	op[0].type = 9;
	ASK("operations-type-9", CALL(cuGraphAddBatchMemOpNode, &node, graph, NULL, (u64)0, &p));
}

static void stream_attributes(void *stream)
{
	union { int words[16]; unsigned char bytes[64]; struct { u64 base, n; float ratio; int hit, miss; } window; } v;
	static const int known[] = {1, 3, 8, 9, 10};
	char question[64];
	for (int i = 0; i < 5; i++) {
		memset(&v, 0x5a, sizeof v);
		snprintf(question, sizeof question, "stream-attribute-%d", known[i]);
		ANSWER(question, CALL(cuStreamGetAttribute, stream, known[i], &v), known[i] == 9 ? v.words[0] & 0xffff : v.words[0]);
	}
	memset(&v, 0, sizeof v);
	ASK("stream-attribute-2", CALL(cuStreamGetAttribute, stream, 2, &v));
	ASK("stream-attribute-99", CALL(cuStreamGetAttribute, stream, 99, &v));
	ASK("stream-set-2", CALL(cuStreamSetAttribute, stream, 2, &v));
	ASK("stream-set-policy-0", CALL(cuStreamSetAttribute, stream, 3, &v));
	v.words[0] = 5;
	ASK("stream-set-policy-5", CALL(cuStreamSetAttribute, stream, 3, &v));
	v.words[0] = 4;
	ASK("stream-set-policy-4", CALL(cuStreamSetAttribute, stream, 3, &v));
	ANSWER("stream-policy", CALL(cuStreamGetAttribute, stream, 3, &v), v.words[0]);
	memset(&v, 0, sizeof v);
	v.words[0] = 2;
	ASK("stream-set-domain-2", CALL(cuStreamSetAttribute, stream, 10, &v));
	v.bytes[0] = 4;
	ASK("stream-set-map-4", CALL(cuStreamSetAttribute, stream, 9, &v));
	memset(&v, 0, sizeof v);
	v.window.ratio = 2;
	ASK("stream-set-ratio-2", CALL(cuStreamSetAttribute, stream, 1, &v));
	v.window.ratio = 1, v.window.hit = 7;
	ASK("stream-set-property-7", CALL(cuStreamSetAttribute, stream, 1, &v));
	v.window.miss = 7;
	ASK("stream-set-properties-7", CALL(cuStreamSetAttribute, stream, 1, &v));
	v.window.hit = v.window.miss = 0, v.window.n = (u64)1 << 40;
	ASK("stream-set-window-of-1-TiB", CALL(cuStreamSetAttribute, stream, 1, &v));
	ASK("stream-copy-attributes", CALL(cuStreamCopyAttributes, NULL, stream));
	ANSWER("stream-copied-policy", CALL(cuStreamGetAttribute, NULL, 3, &v), v.words[0]);
	void *fresh;
	MUST(cuStreamCreate, &fresh, 1);
	ASK("stream-copy-unset", CALL(cuStreamCopyAttributes, stream, fresh));
	ANSWER("stream-copied-unset-policy", CALL(cuStreamGetAttribute, stream, 3, &v), v.words[0]);
	for (int i = 0; i < 5; i++) {
		memset(&v, 0x5a, sizeof v);
		snprintf(question, sizeof question, "stream-attribute-%d-written", known[i]);
		written(question, CALL(cuStreamGetAttribute, fresh, known[i], &v), v.bytes, sizeof v);
	}
}

static void lists(void)
{
	void *module, *lib, *f[4] = {0};
	MUST(cuModuleLoadData, &module, ptx);
	MUST(cuLibraryLoadData, &lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
	ASK("list-room-0", CALL(cuModuleEnumerateFunctions, f, 0, module));
	ASK("list-to-null", CALL(cuModuleEnumerateFunctions, NULL, 1, module));
	ANSWER("list-more-room", CALL(cuModuleEnumerateFunctions, f, 4, module), !!f[0] + !!f[1]);
	ASK("list-kernels-room-0", CALL(cuLibraryEnumerateKernels, f, 0, lib));
	ASK("list-kernels-to-null", CALL(cuLibraryEnumerateKernels, NULL, 1, lib));
	ASK("library-of-null", CALL(cuKernelGetLibrary, &lib, NULL));
	ASK("library-count-of-module", CALL(cuLibraryGetKernelCount, (int *)f, NULL));
}

static void nodes(const char *unused)
{
	(void)unused;
	void *stream;
	a_context();
	MUST(cuStreamCreate, &stream, 1);
	bad_allocations();
	refused_graphs();
	lives_of_memory(stream);
	amounts_of_memory(stream);
	captured_memory(stream);
	dropped_streams();
	user_objects();
	updated_objects();
	operation_nodes();
	stream_attributes(stream);
	lists();
	failed_captures();
}
