/* Runs the throttle of frontend/gloop/host/testdata and misuses the library: steps
 * THROTTLE.ptx TASKS.ptx HOSTILE.ptx STEPS. */
#include "load.h"

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

	/* It takes longer than a launch may; the device asks it to leave in time. */
	struct gloop_config config = {.function = load(argv[1], "throttle"), .grid = {1}, .block = {1}};
	void *args[] = {NULL, &out, &steps};
	int error = gloop_run(&config, args, &stats);
	printf("%s, CUDA %d, %llu launches\n", gloop_message(error), stats.cuda, stats.launches);
	REQUIRE(error == GLOOP_OK && stats.launches > 1);
	CHECK(cuMemcpyDtoH(&word, out, 4));
	REQUIRE(word == steps && stats.callbacks == steps);

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

	CHECK(cuCtxDestroy(ctx));
	puts("steps: PASS");
	return 0;
}
