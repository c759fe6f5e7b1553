/*
 * Some of the micro-benchmarks of `gdev micro`, in C on the CUDA driver API: what
 * the same calls cost without Go. Prints the name and the median time of a call in
 * nanoseconds of each. The argument is about how long each may take, in
 * nanoseconds.
 */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *driver;

static void *function(const char *name)
{
	void *f = dlsym(driver, name);

	if (!f) {
		fprintf(stderr, "libcuda.so.1 lacks %s\n", name);
		exit(1);
	}
	return f;
}

static void check(const char *what, int result)
{
	if (result) {
		fprintf(stderr, "%s: CUDA error %d\n", what, result);
		exit(1);
	}
}

/* Calls a function of the driver by name, once; the types are those of its parameters. */
#define CALL(name, types, ...) check(name, ((int(*) types)function(name))(__VA_ARGS__))

static int (*launch_kernel)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			    unsigned shared, void *stream, void **params, void **extra);
static int (*synchronize)(void);
static int (*copy_up)(uint64_t dst, const void *src, size_t n);
static int (*copy_down)(void *dst, uint64_t src, size_t n);
static int (*copy_up_async)(uint64_t dst, const void *src, size_t n, void *stream);

static const char empty[] = ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n\tret;\n}\n";
static void *kernel;

#define BATCH 10	    /* kernels of launch-loop and graph-sync */
#define SMALL (1 << 20)	    /* bytes of copy-loop */
#define LARGE (64 << 20)    /* bytes of copy-64M */
#define LEAST 5		    /* rounds of each measurement, at least, */
#define MOST 1000000	    /* and at most */

static uint64_t memory;
static void *pageable, *pinned;

static void launches(int n)
{
	for (int i = 0; i < n; i++)
		check("cuLaunchKernel", launch_kernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	check("cuCtxSynchronize", synchronize());
}

static void launch_sync(void)
{
	launches(1);
}

static void launch_loop(void)
{
	launches(BATCH);
}

static int (*graph_launch)(void *exec, void *stream);
static void *graph_exec;

/* Makes a graph of kernels, each behind the one before. */
static void make_graph(void)
{
	struct {
		void *function;
		unsigned shape[7]; /* grid, block, shared memory */
		void **params, **extra;
		void *kernel, *context;
	} node = {.function = kernel, .shape = {1, 1, 1, 32, 1, 1, 0}};
	void *graph, *last;

	CALL("cuGraphCreate", (void **, unsigned), &graph, 0);
	for (int i = 0; i < BATCH; i++)
		CALL("cuGraphAddKernelNode_v2", (void **, void *, void **, size_t, void *), &last, graph, &last, i > 0, &node);
	CALL("cuGraphInstantiateWithFlags", (void **, void *, uint64_t), &graph_exec, graph, 0);
}

static void graph_sync(void)
{
	check("cuGraphLaunch", graph_launch(graph_exec, NULL));
	check("cuCtxSynchronize", synchronize());
}

static void copy_loop(void)
{
	check("cuMemcpyHtoD", copy_up(memory, pageable, SMALL));
	check("cuMemcpyDtoH", copy_down(pageable, memory, SMALL));
}

static void copy_large(void)
{
	check("cuMemcpyHtoDAsync", copy_up_async(memory, pinned, LARGE, NULL));
	check("cuCtxSynchronize", synchronize());
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs something that is n calls again and again. */
static void measure(const char *name, double budget, int n, void (*run)(void))
{
	static double took[MOST];
	int rounds = 0;

	for (int i = 0; i < LEAST; i++)
		run(); /* warms up */
	for (double begin = now(); rounds < LEAST || (rounds < MOST && now() - begin < budget); rounds++) {
		double start = now();

		run();
		took[rounds] = (now() - start) / n;
	}
	qsort(took, rounds, sizeof(took[0]), compare);
	printf("%s %.1f\n", name, took[rounds / 2]);
}

int main(int argc, char **argv)
{
	double budget = argc > 1 ? atof(argv[1]) : 0;
	int number = argc > 2 ? atoi(argv[2]) : 0;
	int device;
	void *context, *module;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	launch_kernel = function("cuLaunchKernel");
	synchronize = function("cuCtxSynchronize");
	graph_launch = function("cuGraphLaunch");
	copy_up = function("cuMemcpyHtoD_v2");
	copy_down = function("cuMemcpyDtoH_v2");
	copy_up_async = function("cuMemcpyHtoDAsync_v2");
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &device, number);
	CALL("cuCtxCreate_v2", (void **, unsigned, int), &context, 0, device);
	CALL("cuModuleLoadData", (void **, const void *), &module, empty);
	CALL("cuModuleGetFunction", (void **, void *, const char *), &kernel, module, "empty");
	CALL("cuMemAlloc_v2", (uint64_t *, size_t), &memory, LARGE);
	CALL("cuMemHostAlloc", (void **, size_t, unsigned), &pinned, LARGE, 0);
	pageable = malloc(SMALL);
	if (!pageable) {
		perror("malloc");
		return 1;
	}
	memset(pageable, 1, SMALL);
	memset(pinned, 1, LARGE);

	measure("launch-sync", budget, 1, launch_sync);
	measure("launch-loop", budget, BATCH, launch_loop);
	make_graph();
	measure("graph-sync", budget, 1, graph_sync);
	measure("copy-loop", budget, 2, copy_loop);
	measure("copy-64M", budget, 1, copy_large);
	CALL("cuCtxDestroy_v2", (void *), context);
	return 0;
}
