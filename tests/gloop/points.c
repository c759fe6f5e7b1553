/*
 * Measures what a scheduling point costs, and suspends a tree of tasks after every k-th callback:
 * points FOLDER STEPS, with the folder of frontend/gloop/host/testdata. Prints nanoseconds a step.
 */
#include <time.h>

#include "load.h"

static char folder[4096];
static CUdeviceptr out;

/* find loads a kernel from a file of the folder. */
static CUfunction find(const char *file, const char *name)
{
	char path[4200];
	snprintf(path, sizeof path, "%s/%s", folder, file);
	return load(path, name);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void run(struct gloop_config *c, unsigned n, struct gloop_stats *stats)
{
	void *args[] = {NULL, &out, &n};
	int error = gloop_run(c, args, stats);
	if (error)
		fprintf(stderr, "points: %s (CUDA: %d, block %u)\n", gloop_message(error), stats->cuda, stats->block);
	REQUIRE(error == GLOOP_OK);
}

/* step measures a kernel that counts to n, in so many threads. */
static void step(const char *file, const char *kernel, unsigned threads, unsigned n)
{
	struct gloop_config c = {.function = find(file, kernel), .grid = {1}, .block = {threads}};
	struct gloop_stats stats;
	unsigned word = 0;

	run(&c, 1000, &stats); /* the first launch loads the module */
	CHECK(cuMemcpyHtoD(out, &word, 4));
	double start = seconds();
	run(&c, n, &stats);
	double spent = seconds() - start;
	CHECK(cuMemcpyDtoH(&word, out, 4));
	REQUIRE(word == n);
	printf("%-22s %-10s %5u threads %8.1f ns a step, %llu callbacks, %llu looks, %llu launches\n", file, kernel, threads,
	       spent / n * 1e9, stats.callbacks, stats.looks, stats.launches);
}

/* split measures a launch of one step that is waited for, by a kernel that loops itself. */
static void split(unsigned n)
{
	CUfunction f = find("tasks.ptx", "plain");
	unsigned word = 0;
	void *args[] = {&out};
	CHECK(cuMemcpyHtoD(out, &word, 4));
	double start = seconds();
	for (unsigned i = 0; i < n; i++) {
		CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
		CHECK(cuCtxSynchronize());
	}
	double spent = seconds() - start;
	CHECK(cuMemcpyDtoH(&word, out, 4));
	REQUIRE(word == n);
	printf("%-22s %-10s %5u threads %8.1f ns a step\n", "tasks.ptx", "plain", 1, spent / n * 1e9);
}

enum { BLOCKS = 3, THREADS = 40, DEPTH = 7, WORDS = BLOCKS * THREADS };

/* tree runs it, and leaves after every callbacks. */
static void tree(const char *file, unsigned every, unsigned *words, struct gloop_stats *stats)
{
	static CUfunction f;
	if (!f || every == 0)
		f = find(file, "tree");
	struct gloop_config c = {.function = f, .grid = {BLOCKS}, .block = {THREADS}, .every = every};
	memset(words, 0, 4 * WORDS);
	CHECK(cuMemcpyHtoD(out, words, 4 * WORDS));
	run(&c, DEPTH, stats);
	CHECK(cuMemcpyDtoH(words, out, 4 * WORDS));
}

int main(int argc, char **argv)
{
	static const char *const files[] = {"throttle.ptx", "throttle.noshared.ptx"}, *const trees[] = {"tasks.ptx", "tasks.noshared.ptx"};
	CUdevice dev;
	CUcontext ctx;
	char name[256];
	unsigned n = argc == 3 ? (unsigned)atoi(argv[2]) : 0;

	REQUIRE(n > 0);
	snprintf(folder, sizeof folder, "%s", argv[1]);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetName(name, sizeof name, dev));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&out, 4 * WORDS));
	printf("%s\n", name);
	for (int i = 0; i < 2; i++) {
		step(files[i], "throttle", 1, n);
		step(files[i], "throttle", 1024, n);
		step(files[i], "necessary", 1, n);
		step(files[i], "necessary", 1024, n);
	}
	split(n / 10);
	for (int i = 0; i < 2; i++) {
		unsigned want[WORDS], got[WORDS], launches = 0;
		struct gloop_stats all, stats;
		tree(trees[i], 0, want, &all);
		for (unsigned k = 1; k <= all.callbacks; k++) {
			tree(trees[i], k, got, &stats);
			REQUIRE(memcmp(want, got, sizeof want) == 0 && stats.callbacks == all.callbacks);
			launches += (unsigned)stats.launches;
		}
		printf("%s: suspended after every k-th callback, k = 1 to %llu, %u launches: the same bytes\n", trees[i], all.callbacks, launches);
	}
	CHECK(cuCtxDestroy(ctx));
	puts("points: PASS");
	return 0;
}
