// What the driver itself costs, called from C, in the format of Go's benchmarks:
// the measure for gpu/nvidia. Build: gcc -O2 -o native native.c -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void *handle;

static void *lib;
static void *sym(const char *name) {
	void *f = dlsym(lib, name);
	if (!f) { fprintf(stderr, "no %s\n", name); exit(1); }
	return f;
}
#define CALL(name, types, ...) do { \
	int code = ((int (*) types)sym(name)) (__VA_ARGS__); \
	if (code) { fprintf(stderr, "%s: %d\n", name, code); exit(1); } } while (0)

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void report(const char *name, double *took, int n, double bytes) {
	qsort(took, n, sizeof *took, compare);
	printf("BenchmarkC/%s \t%d\t%.0f ns/op", name, n, took[n / 2]);
	if (bytes) printf("\t%.1f MB/s", bytes / took[n / 2] * 1e3);
	printf("\n");
}

static const char *source =
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

int main(void) {
	enum { N = 5000, COPIES = 50 };
	static double took[N];
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	int dev;
	handle ctx, mod, fn, stream;
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &dev, 0);
	CALL("cuDevicePrimaryCtxRetain", (handle *, int), &ctx, dev);
	CALL("cuCtxSetCurrent", (handle), ctx);
	CALL("cuModuleLoadData", (handle *, const void *), &mod, source);
	CALL("cuModuleGetFunction", (handle *, handle, const char *), &fn, mod, "nothing");
	CALL("cuStreamCreate", (handle *, unsigned), &stream, 1);
	int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **) = sym("cuLaunchKernel");
	int (*sync)(handle) = sym("cuStreamSynchronize");
	int (*write)(handle, uint64_t, uint32_t, unsigned) = sym("cuStreamWriteValue32_v2");
	int (*copy)(uint64_t, uint64_t, size_t, handle) = sym("cuMemcpyAsync");

	for (int i = 0; i < N; i++) {
		double t = now();
		launch(fn, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0);
		sync(stream);
		took[i] = now() - t;
	}
	report("LaunchSync", took, N, 0);

	volatile uint32_t *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CALL("cuMemHostRegister_v2", (const volatile void *, size_t, unsigned), word, 4096, 2);
	for (int i = 0; i < N; i++) {
		double t = now();
		launch(fn, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0);
		write(stream, (uint64_t)word, i + 1, 0);
		while (*word != (uint32_t)(i + 1)) {}
		took[i] = now() - t;
	}
	report("LaunchFence", took, N, 0);

	double t = now();
	for (int i = 0; i < N; i++) launch(fn, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0);
	sync(stream);
	took[0] = (now() - t) / N;
	report("LaunchAsync", took, 1, 0);

	size_t size = 64 << 20;
	uint64_t vram;
	CALL("cuMemAlloc_v2", (uint64_t *, size_t), &vram, size);
	char *host = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(host, 1, size);
	for (int pinned = 0; pinned < 2; pinned++) {
		if (pinned) CALL("cuMemHostRegister_v2", (void *, size_t, unsigned), host, size, 2);
		for (int down = 0; down < 2; down++) {
			char name[64];
			for (int i = 0; i < COPIES; i++) {
				t = now();
				if (down) copy((uint64_t)host, vram, size, stream); else copy(vram, (uint64_t)host, size, stream);
				sync(stream);
				took[i] = now() - t;
			}
			snprintf(name, sizeof name, "Copy/%s_%s", pinned ? "pinned" : "pageable", down ? "from_VRAM" : "to_VRAM");
			report(name, took, COPIES, size);
		}
	}
	return 0;
}
