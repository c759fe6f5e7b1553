// Questions about clusters. Each group runs in a process of its own, because a fault ends a context.
#pragma once
#include "ask.h"

enum { CLUSTER = 4, POLICY = 5, COOPERATIVE = 2 }; // launch attributes
enum { SHARED_MOST = 8, MUST_BE_SET = 10, WIDTH, HEIGHT, DEPTH, NOT_PORTABLE, SCHEDULING, BEYOND }; // function attributes

struct attribute {
	unsigned id, pad;
	union {
		unsigned dim[3];
		int value;
		char bytes[64];
	} u;
};

struct launch {
	unsigned grid[3], block[3], shared;
	void *stream, *list;
	unsigned count;
	struct attribute attributes[2];
};

static char source[1 << 16];
static u64 module, results;

static u64 kernel(const char *name)
{
	u64 f = 0;
	MUST(cuModuleGetFunction, &f, module, name);
	return f;
}

static void start(void)
{
	void *ctx;
	MUST(cuInit, 0);
	MUST(cuDevicePrimaryCtxRetain, &ctx, 0);
	MUST(cuCtxSetCurrent, ctx);
	MUST(cuModuleLoadData, &module, source);
	MUST(cuMemAlloc_v2, &results, 1 << 16);
	MUST(cuMemsetD8_v2, results, 0xcc, 1 << 16);
}

// clusters is a launch of a grid in clusters, or without a word of them if x is negative.
static struct launch clusters(unsigned width, unsigned height, unsigned block, int x, unsigned y, unsigned z)
{
	struct launch l = {.grid = {width, height, 1}, .block = {block, 1, 1}, .count = x >= 0};
	l.attributes[0].id = CLUSTER;
	l.attributes[0].u.dim[0] = (unsigned)x, l.attributes[0].u.dim[1] = y, l.attributes[0].u.dim[2] = z;
	return l;
}

static int launched(u64 f, struct launch *l)
{
	void *arguments[] = {&results};
	l->list = l->attributes;
	return CALL(cuLaunchKernelEx, l, f, arguments, NULL);
}

static int plainly(u64 f, unsigned width, unsigned height, unsigned block)
{
	void *arguments[] = {&results};
	return CALL(cuLaunchKernel, f, width, height, 1, block, 1, 1, 0, NULL, arguments, NULL);
}

// told prints what a launch and the kernel came to, with words that the kernel has written, by eight.
static void told(const char *question, int launch, int words)
{
	int sync = CALL(cuCtxSynchronize);
	unsigned seen[128];
	printf("%s launch %d sync %d", question, launch, sync);
	if (launch == 0 && sync == 0 && words > 0) {
		MUST(cuMemcpyDtoH_v2, seen, results, 4 * words);
		for (int i = 0; i < words; i++)
			printf("%s%x", i % 8 ? " " : " | ", seen[i]);
	}
	printf("\n");
	if (sync == 0)
		MUST(cuMemsetD8_v2, results, 0xcc, 1 << 16);
}

static void attributes(void)
{
	static const char *const names[] = {"plain", "req", "expl", "rank4", "rankboth"};
	int v = 99;
	ANSWER("cluster-launch", CALL(cuDeviceGetAttribute, &v, 120, 0), v);
	for (int i = 0; i < 5; i++)
		for (int a = MUST_BE_SET; a <= BEYOND; a++) {
			v = 99;
			int r = CALL(cuFuncGetAttribute, &v, a, kernel(names[i]));
			printf("get-%s-%d %d %d\n", names[i], a, r, v);
		}
	for (int i = 0; i < 5; i++)
		for (int a = MUST_BE_SET; a <= BEYOND; a++)
			for (int x = -1; x < 5; x++) {
				int r = CALL(cuFuncSetAttribute, kernel(names[i]), a, x);
				v = 99;
				int q = CALL(cuFuncGetAttribute, &v, a, kernel(names[i]));
				printf("set-%s-%d=%d %d then %d %d\n", names[i], a, x, r, q, v);
			}
	for (int x = 8; x < 20; x++)
		printf("set-plain-width-%d %d\n", x, CALL(cuFuncSetAttribute, kernel("plain"), WIDTH, x));
}

static void set_to_two(u64 f)
{
	MUST(cuFuncSetAttribute, f, WIDTH, 2);
	MUST(cuFuncSetAttribute, f, HEIGHT, 1);
	MUST(cuFuncSetAttribute, f, DEPTH, 1);
}

static void set_clusters(void)
{
	u64 f = kernel("plain");
	set_to_two(f);
	told("set-2-grid-4", plainly(f, 4, 1, 32), 32);
	told("set-2-grid-3", plainly(f, 3, 1, 32), 0);
	struct launch l = clusters(4, 1, 32, 4, 1, 1);
	told("set-2-attr-4", launched(f, &l), 32);
	l = clusters(4, 1, 32, 1, 1, 1);
	told("set-2-attr-1", launched(f, &l), 32);
	l = clusters(4, 1, 32, -1, 1, 1);
	told("set-2-no-attr", launched(f, &l), 32);
	f = kernel("expl");
	set_to_two(f);
	told("expl-set-2", plainly(f, 4, 1, 32), 0);
}

// sizes asks for clusters of a grid, with and without the attribute that allows more than 8 blocks.
static void sizes(void)
{
	static const int list[][6] = {
		{4, 1, 2, 1, 1, 0}, {3, 1, 2, 1, 1, 0}, {4, 1, 1, 1, 1, 0}, {4, 1, 0, 0, 0, 0}, {4, 1, 2, 0, 1, 0}, {4, 1, 0, 1, 1, 0},
		{4, 1, 2, 0, 0, 0}, {8, 1, 8, 1, 1, 0}, {9, 1, 9, 1, 1, 0}, {16, 1, 16, 1, 1, 0}, {16, 1, 16, 1, 1, 1}, {17, 1, 17, 1, 1, 1},
		{32, 1, 32, 1, 1, 1}, {16, 1, 12, 1, 1, 1}, {24, 1, 12, 1, 1, 1}, {6, 1, 6, 1, 1, 0}, {5, 1, 5, 1, 1, 0}, {7, 1, 7, 1, 1, 0},
		{3, 1, 3, 1, 1, 0}, {4, 4, 2, 2, 1, 0}, {4, 4, 4, 4, 1, 0}, {4, 4, 4, 4, 1, 1}, {2, 1, 4, 1, 1, 0}, {4, 1, 1, 1, 2, 0},
		{4, 1, -1, 0, 0, 0}, {0, 1, 2, 1, 1, 0}, {4, 1, 65536, 65536, 1, 0},
	};
	u64 f = kernel("plain");
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const int *n = list[i];
		char question[99];
		MUST(cuFuncSetAttribute, f, NOT_PORTABLE, n[5]);
		struct launch l = clusters(n[0], n[1], 32, n[2], n[3], n[4]);
		snprintf(question, sizeof question, "plain-grid-%d,%d-cluster-%d,%d,%d-np-%d", n[0], n[1], n[2], n[3], n[4], n[5]);
		told(question, launched(f, &l), n[1] > 1 ? 0 : 32); // with rows, blocks write over each other's words
	}
	static const int shared[][4] = {{8, 1024, 230000, 0}, {8, 1024, 100000, 0}, {16, 1024, 230000, 1}, {16, 1024, 100000, 1},
		{16, 256, 1024, 1}, {8, 1025, 0, 0}, {8, 64, 240000, 0}};
	for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
		const int *n = shared[i];
		char question[99];
		MUST(cuFuncSetAttribute, f, NOT_PORTABLE, n[3]);
		int set = CALL(cuFuncSetAttribute, f, SHARED_MOST, n[2]);
		struct launch l = clusters(n[0], 1, n[1], n[0], 1, 1);
		l.shared = n[2];
		snprintf(question, sizeof question, "cluster-%d-of-%d-threads,-%d-shared-(set-%d)", n[0], n[1], n[2], set);
		told(question, launched(f, &l), 0);
	}
}

static void options(void)
{
	u64 f = kernel("plain");
	struct launch l;
	for (int policy = -1; policy < 5; policy++) {
		char question[99];
		l = clusters(4, 1, 32, 2, 1, 1);
		l.count = 2, l.attributes[1].id = POLICY, l.attributes[1].u.value = policy;
		snprintf(question, sizeof question, "policy-%d", policy);
		told(question, launched(f, &l), 0);
	}
	l = clusters(4, 1, 32, 2, 1, 1);
	l.count = 2, l.attributes[1].id = COOPERATIVE, l.attributes[1].u.value = 1;
	told("cooperative", launched(f, &l), 32);
	l = clusters(4, 1, 32, 2, 1, 1);
	l.count = 2, l.attributes[1] = l.attributes[0], l.attributes[1].u.dim[0] = 4;
	told("twice", launched(f, &l), 32);
}

#define SIZED(question, name, width, height, block, x, y, z, words)                         \
	do {                                                                                \
		struct launch sized = clusters(width, height, block, x, y, z);              \
		told(question, launched(kernel(name), &sized), words);                      \
	} while (0)

static void directives(void)
{
	void *arguments[] = {&results};
	u64 req = kernel("req");
	told("req-plain-launch-4,4", plainly(req, 4, 4, 32), 128);
	told("req-plain-launch-3,4", plainly(req, 3, 4, 32), 0);
	told("req-plain-launch-4,1", plainly(req, 4, 1, 32), 0);
	told("req-coop-launch-4,4", CALL(cuLaunchCooperativeKernel, req, 4, 4, 1, 32, 1, 1, 0, NULL, arguments), 0);
	told("req-block-64", plainly(req, 4, 4, 64), 0);
	SIZED("req-attr-2,2", "req", 4, 4, 32, 2, 2, 1, 32);
	SIZED("req-attr-4,1", "req", 4, 4, 32, 4, 1, 1, 0);
	SIZED("req-attr-1,1", "req", 4, 4, 32, 1, 1, 1, 0);
	SIZED("req-attr-0,0", "req", 4, 4, 32, 0, 0, 0, 0);
	told("expl-plain", plainly(kernel("expl"), 4, 1, 32), 1);
	SIZED("expl-2", "expl", 4, 1, 32, 2, 1, 1, 1);
	SIZED("expl-1", "expl", 4, 1, 32, 1, 1, 1, 1);
	SIZED("expl-0", "expl", 4, 1, 32, 0, 0, 0, 1);
	told("rank4-plain", plainly(kernel("rank4"), 4, 1, 32), 1);
	SIZED("rank4-4", "rank4", 8, 1, 32, 4, 1, 1, 1);
	SIZED("rank4-8", "rank4", 8, 1, 32, 8, 1, 1, 1);
	SIZED("rank4-2", "rank4", 8, 1, 32, 2, 1, 1, 1);
	SIZED("rankboth-16-np-0", "rankboth", 16, 1, 32, 16, 1, 1, 1);
	MUST(cuFuncSetAttribute, kernel("rankboth"), NOT_PORTABLE, 1);
	SIZED("rankboth-16-np-1", "rankboth", 16, 1, 32, 16, 1, 1, 1);
}

// counted is a number that depends on the GPU's multiprocessors.
static const char *counted(int n) { return n == 99 ? "unset" : n > 0 ? "some" : "none"; }

static void occupied(const char *name, const int *n, int set, int grid, int rows, int potential)
{
	struct launch l = clusters(grid, rows, n[1], n[0], 1, 1);
	int active = 99, size = 99;
	l.shared = n[2], l.list = l.attributes;
	int r = CALL(cuOccupancyMaxActiveClusters, &active, kernel(name), &l);
	int q = potential ? CALL(cuOccupancyMaxPotentialClusterSize, &size, kernel(name), &l) : 0;
	printf("occupancy-%s-cluster-%d-grid-%d-block-%d-shared-%d(%d)-np-%d active %d %s potential %d %d\n", name, n[0], grid, n[1], n[2],
		set, n[3], r, counted(active), q, size);
}

static void occupancies(void)
{
	static const int list[][4] = {{1, 128, 0, 0}, {2, 128, 0, 0}, {4, 128, 0, 0}, {8, 128, 0, 0}, {16, 128, 0, 0}, {16, 128, 0, 1},
		{17, 128, 0, 1}, {2, 1024, 0, 0}, {8, 1024, 0, 0}, {8, 1024, 100000, 0}, {8, 1024, 227000, 0}, {16, 1024, 227000, 1},
		{16, 1024, 1024, 1}, {2, 128, 227000, 0}, {3, 128, 0, 0}, {5, 128, 0, 0}, {2, 1025, 0, 0}, {2, 128, 240000, 0},
		{0, 128, 0, 0}, {-1, 128, 0, 0}, {7, 256, 60000, 0}, {6, 256, 0, 0}, {12, 256, 0, 1}};
	static const char *const names[] = {"plain", "req", "rank4", "expl"};
	for (int k = 0; k < 4; k++)
		for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
			const int *n = list[i], rows = k == 1 ? 2 : 1;
			MUST(cuFuncSetAttribute, kernel(names[k]), NOT_PORTABLE, n[3]);
			int set = CALL(cuFuncSetAttribute, kernel(names[k]), SHARED_MOST, n[2]), one = n[0] > 0 ? n[0] : 4;
			occupied(names[k], n, set, one, rows, 1);
			if (n[0] > 0)
				occupied(names[k], n, set, one * 64, rows, 1);
			occupied(names[k], n, set, one + 1, rows, 0);
		}
	struct launch l = clusters(16, 1, 1, -1, 1, 1);
	int v;
	ASK("active-clusters-of-no-kernel", CALL(cuOccupancyMaxActiveClusters, &v, NULL, &l));
	ASK("active-clusters-to-nowhere", CALL(cuOccupancyMaxActiveClusters, NULL, kernel("plain"), &l));
	ASK("potential-size-to-nowhere", CALL(cuOccupancyMaxPotentialClusterSize, NULL, kernel("plain"), &l));
	ASK("active-clusters-of-no-launch", CALL(cuOccupancyMaxActiveClusters, &v, kernel("plain"), NULL));
	ASK("potential-size-of-no-launch", CALL(cuOccupancyMaxPotentialClusterSize, &v, kernel("plain"), NULL));
}

// kernel_node is CUDA_KERNEL_NODE_PARAMS.
struct kernel_node {
	u64 f;
	unsigned grid[3], block[3], shared, pad;
	void *arguments, *extra;
};

// node_has prints what an attribute of a node is.
static void node_has(const char *question, u64 node, int attribute, int words)
{
	struct attribute a;
	memset(&a, 0xee, sizeof a);
	printf("%s %d", question, CALL(cuGraphKernelNodeGetAttribute, node, attribute, &a.u));
	for (int i = 0; i < words; i++)
		printf(" %x", a.u.dim[i]);
	printf("\n");
}

static int node_set(u64 node, int attribute, unsigned x, unsigned y, unsigned z)
{
	struct attribute a = {.u.dim = {x, y, z}};
	return CALL(cuGraphKernelNodeSetAttribute, node, attribute, &a.u);
}

static void node_attributes(u64 node)
{
	static const unsigned list[][3] = {{2, 1, 1}, {3, 1, 1}, {9, 1, 1}, {16, 1, 1}, {0, 0, 0}, {2, 0, 1}, {1, 1, 1}, {2, 1, 1}};
	char question[99];
	node_has("node-unset", node, CLUSTER, 3);
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const unsigned *n = list[i];
		snprintf(question, sizeof question, "node-set-%u,%u,%u", n[0], n[1], n[2]);
		ASK(question, node_set(node, CLUSTER, n[0], n[1], n[2]));
		snprintf(question, sizeof question, "node-has-%u,%u,%u", n[0], n[1], n[2]);
		node_has(question, node, CLUSTER, 3);
	}
	for (unsigned policy = 0; policy < 5; policy++) {
		snprintf(question, sizeof question, "node-policy-%u", policy);
		ASK(question, node_set(node, POLICY, policy, 0, 0));
		snprintf(question, sizeof question, "node-has-policy-%u", policy);
		node_has(question, node, POLICY, 1);
	}
}

static void nodes(void)
{
	void *arguments[] = {&results};
	struct kernel_node p = {.f = kernel("plain"), .grid = {4, 1, 1}, .block = {32, 1, 1}, .arguments = arguments};
	u64 graph, node, other, last, ready, another;
	MUST(cuGraphCreate, &graph, 0);
	MUST(cuGraphAddKernelNode, &node, graph, NULL, 0, &p);
	node_attributes(node);
	ASK("instantiate", CALL(cuGraphInstantiateWithFlags, &ready, graph, 0));
	told("graph", CALL(cuGraphLaunch, ready, NULL), 32);
	p.grid[0] = 3;
	ASK("exec-set-grid-3", CALL(cuGraphExecKernelNodeSetParams, ready, node, &p));
	ASK("set-grid-3", CALL(cuGraphKernelNodeSetParams, node, &p));
	ASK("instantiate-grid-3", CALL(cuGraphInstantiateWithFlags, &another, graph, 0));
	p.f = kernel("req"), p.grid[0] = p.grid[1] = 4;
	ASK("add-req", CALL(cuGraphAddKernelNode, &other, graph, NULL, 0, &p));
	node_has("get-req", other, CLUSTER, 3);
	ASK("set-req-4", node_set(other, CLUSTER, 4, 1, 1));
	p.grid[0] = 3;
	ASK("add-req-grid-3", CALL(cuGraphAddKernelNode, &last, graph, NULL, 0, &p));
	ASK("copy", CALL(cuGraphKernelNodeCopyAttributes, other, node));
	p.f = kernel("expl"), p.grid[0] = 4;
	ASK("add-expl", CALL(cuGraphAddKernelNode, &last, graph, NULL, 0, &p));
	ASK("instantiate-expl", CALL(cuGraphInstantiateWithFlags, &another, graph, 0));
}

static void captured(const char *question, u64 stream, unsigned grid, int x)
{
	struct launch l = clusters(grid, 1, 32, x, 1, 1);
	u64 graph;
	l.stream = (void *)stream;
	printf("%s %d\n", question, launched(kernel("plain"), &l));
	if (grid % (unsigned)x || x > 8)
		printf("%s-ends %d\n", question, CALL(cuStreamEndCapture, stream, &graph));
}

static void captures(void)
{
	u64 stream;
	MUST(cuStreamCreate, &stream, 1);
	MUST(cuStreamBeginCapture_v2, stream, 0);
	captured("captured", stream, 4, 2);
	captured("captured-grid-3-after", stream, 3, 2);
	MUST(cuStreamBeginCapture_v2, stream, 0);
	captured("captured-grid-3", stream, 3, 2);
	MUST(cuStreamBeginCapture_v2, stream, 0);
	captured("captured-9", stream, 9, 9);
}

static int probed;

static void probe(void)
{
	void *arguments[] = {&results, &probed};
	struct launch l = clusters(2, 1, 32, 2, 1, 1);
	char question[20];
	l.list = l.attributes;
	snprintf(question, sizeof question, "probe-%d", probed);
	told(question, CALL(cuLaunchKernelEx, &l, kernel("probe"), arguments, NULL), 2);
}
