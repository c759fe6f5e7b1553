// Prints what the driver says about its devices.
#include "driver.h"

int main(void)
{
	static const struct {
		const char *text;
		int attribute;
	} wanted[] = {
		{"compute capability, major", 75}, {"compute capability, minor", 76}, {"multiprocessors", 16},
		{"threads of a block", 1}, {"largest block, x", 2}, {"largest grid, x", 5}, {"shared memory of a block, bytes", 8},
		{"constant memory, bytes", 9}, {"warp, threads", 10}, {"registers of a block", 12}, {"clock, kHz", 13},
		{"copies beside kernels", 15}, {"integrated", 18}, {"can map host memory", 19}, {"concurrent kernels", 31},
		{"threads of a multiprocessor", 39}, {"unified addressing", 41}, {"managed memory", 83},
	};
	int count, version, value;
	char name[100];
	size_t total, free_bytes;
	CUcontext ctx;

	CHECK(cuInit(0));
	CHECK(cuDriverGetVersion(&version));
	CHECK(cuDeviceGetCount(&count));
	printf("driver API %d.%d, %d device\n", version / 1000, version % 100 / 10, count);
	REQUIRE(count > 0);
	for (int i = 0; i < count; i++) {
		CUdevice dev;
		CHECK(cuDeviceGet(&dev, i));
		CHECK(cuDeviceGetName(name, sizeof name, dev));
		CHECK(cuDeviceTotalMem(&total, dev));
		printf("device %d: %s, %zu MiB\n", i, name, total >> 20);
		REQUIRE(strlen(name) > 0 && total > 0);
		for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
			CHECK(cuDeviceGetAttribute(&value, wanted[k].attribute, dev));
			printf("  %-32s %d\n", wanted[k].text, value);
		}
		CHECK(cuCtxCreate(&ctx, 0, dev));
		CHECK(cuMemGetInfo(&free_bytes, &total));
		REQUIRE(free_bytes > 0 && free_bytes <= total);
		CHECK(cuCtxDestroy(ctx));
	}
	puts("device_query: PASS");
	return 0;
}
