/* Runs the throttle of frontend/gloop/host/testdata and misuses the library: steps
 * THROTTLE.ptx TASKS.ptx HOSTILE.ptx STEPS, where STEPS are the first number tried that may take longer than
 * a launch may. */
#include <pthread.h>
#include <unistd.h>

#include "load.h"

static size_t left(void)
{
	size_t unused = 0, total = 0;
	CHECK(cuMemGetInfo(&unused, &total));
	return unused;
}

/* flood posts so many tasks in each of blocks. */
static int flood(struct gloop_config c, unsigned blocks, unsigned n)
{
	void *args[] = {NULL, NULL, &n};
	CUdeviceptr out = 0;
	args[1] = &out;
	c.grid[0] = c.blocks = blocks;
	CHECK(cuMemAlloc(&out, 4 * blocks));
	struct gloop_stats stats;
	int error = gloop_run(&c, args, &stats);
	CHECK(cuMemFree(out));
	REQUIRE(error != GLOOP_OK || stats.callbacks == blocks * (n + 1));
	return error;
}

struct job {
	CUcontext ctx;
	struct gloop_config config;
};

static void *job(void *arg)
{
	struct job *j = arg;
	CHECK(cuCtxSetCurrent(j->ctx));
	for (int i = 0; i < 5; i++)
		REQUIRE(flood(j->config, 3, 20) == GLOOP_OK);
	return NULL;
}

/* Runs with a pool use the memory of those before: as many in a row need no more than one. */
static void pools(CUcontext ctx, CUfunction f)
{
	struct gloop_config c = {.function = f, .grid = {1}, .block = {8}};
	struct gloop_config none = c;
	REQUIRE(flood(c, 200, 5) == GLOOP_OK); /* what the context allocates once */
	size_t before = left();
	REQUIRE(gloop_prepare(&none, NULL) == GLOOP_INVALID);
	REQUIRE(gloop_pool_create(&c.pool) == GLOOP_OK);
	c.grid[0] = c.blocks = 200; /* of 40 KB each */
	REQUIRE(gloop_prepare(&c, NULL) == GLOOP_OK);
	size_t prepared = left();
	REQUIRE(prepared < before);
	for (int i = 0; i < 5; i++) {
		REQUIRE(flood(c, 1, 5) == GLOOP_OK);
		REQUIRE(flood(c, 200, 5) == GLOOP_OK);
		REQUIRE(left() == prepared);
	}
	REQUIRE(flood(c, 500, 5) == GLOOP_OK);
	size_t larger = left();
	REQUIRE(larger < prepared);
	REQUIRE(flood(c, 1, 100) == GLOOP_SLOTS);
	REQUIRE(flood(c, 500, 5) == GLOOP_OK && left() == larger); /* a kernel that failed leaves a pool that works */

	struct job jobs = {.ctx = ctx, .config = c};
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		REQUIRE(pthread_create(&threads[i], NULL, job, &jobs) == 0);
	for (int i = 0; i < 3; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);

	CUdevice dev;
	CUcontext other;
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&other, 0, dev));
	REQUIRE(gloop_prepare(&c, NULL) == GLOOP_INVALID); /* the pool is of another context */
	gloop_pool_destroy(c.pool);
	CHECK(cuCtxDestroy(other));
	CHECK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < 600 && left() != before; i++)
		usleep(100000); /* what a context had is free soon after its end, not at once */
	REQUIRE(left() == before);
	gloop_pool_destroy(NULL);
}

int main(int argc, char **argv)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr out;
	struct gloop_stats stats;
	unsigned word = 0, steps = argc == 5 ? (unsigned)atoi(argv[4]) : 0;

	REQUIRE(steps > 0);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&out, 4));
	CHECK(cuMemcpyHtoD(out, &word, 4));

	/* It takes longer than a launch may, however fast the machine is; the device asks it to leave in time. */
	struct gloop_config config = {.function = load(argv[1], "throttle"), .grid = {1}, .block = {1}};
	void *args[] = {NULL, &out, &steps};
	unsigned all = 0;
	int error;
	for (;; steps *= 2) {
		error = gloop_run(&config, args, &stats);
		printf("%u steps: %s, CUDA %d, %llu launches\n", steps, gloop_message(error), stats.cuda, stats.launches);
		REQUIRE(error == GLOOP_OK && stats.callbacks == steps);
		CHECK(cuMemcpyDtoH(&word, out, 4));
		REQUIRE(word == (all += steps));
		if (stats.launches > 1)
			break;
		REQUIRE(steps < 1 << 28);
	}

	unsigned flood = 100;
	void *more[] = {NULL, &out, &flood};
	config.function = load(argv[2], "flood");
	REQUIRE(gloop_run(&config, more, &stats) == GLOOP_SLOTS);
	config.function = load(argv[2], "apart");
	config.block[0] = 64;
	REQUIRE(gloop_run(&config, more, NULL) == GLOOP_COALESCED);
	config.grid[0] = 0;
	REQUIRE(gloop_run(&config, more, NULL) == GLOOP_INVALID);
	config.grid[0] = 1;
	config.block[0] = 1 << 20;
	REQUIRE(gloop_run(&config, more, &stats) == GLOOP_CUDA && stats.cuda == CUDA_ERROR_INVALID_VALUE);
	int cancel = 1;
	config.block[0] = 1;
	config.cancel = &cancel;
	REQUIRE(gloop_run(&config, more, &stats) == GLOOP_CANCELED && stats.launches == 0);

	/* Kernels that break the protocol end their own program, and the next one runs. */
	static const int want[] = {GLOOP_PROTOCOL, GLOOP_OK, GLOOP_PROTOCOL, GLOOP_PROTOCOL, GLOOP_OK};
	config.cancel = NULL;
	config.function = load(argv[3], "hostile");
	for (unsigned attack = 0; attack < 5; attack++)
		for (unsigned seed = 0; seed < (attack == 1 ? 20 : 1); seed++) {
			void *attacks[] = {NULL, &attack, &seed};
			error = gloop_run(&config, attacks, &stats);
			printf("attack %u: %s\n", attack, gloop_message(error));
			REQUIRE(error == want[attack] && stats.requests <= 64);
		}
	config.function = load(argv[2], "flood");
	flood = 10;
	REQUIRE(gloop_run(&config, more, &stats) == GLOOP_OK && stats.callbacks == 11);
	pools(ctx, config.function);

	CHECK(cuCtxDestroy(ctx));
	puts("steps: PASS");
	return 0;
}
