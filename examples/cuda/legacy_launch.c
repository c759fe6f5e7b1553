// Launches as programs did before CUDA 4.0, and as Gdev's own tests do: the
// function keeps its block and its parameters.
#include "driver.h"
#include "kernels.h"

int main(void)
{
	enum { N = 1000 };
	static float x[N];
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction scale;
	CUdeviceptr dx, counter;
	CUstream stream;
	size_t size;
	unsigned threads;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	FILE *f = fopen("legacy_launch.ptx", "w");
	REQUIRE(f != NULL);
	REQUIRE(fputs(vector_ptx, f) >= 0 && fclose(f) == 0);
	CHECK(cuModuleLoad(&mod, "legacy_launch.ptx"));
	REQUIRE(remove("legacy_launch.ptx") == 0);
	CHECK(cuModuleGetFunction(&scale, mod, "scale"));
	CHECK(cuModuleGetGlobal(&counter, &size, mod, "threads"));
	REQUIRE(size == sizeof threads);

	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	CHECK(cuMemAlloc(&dx, sizeof x));
	CHECK(cuMemcpyHtoD(dx, x, sizeof x));
	CHECK(cuFuncSetBlockShape(scale, 128, 1, 1));
	CHECK(cuFuncSetSharedSize(scale, 0));
	CHECK(cuParamSetv(scale, 0, &dx, sizeof dx));
	CHECK(cuParamSetf(scale, 8, 2.5f));
	CHECK(cuParamSeti(scale, 12, N));
	CHECK(cuParamSetSize(scale, 16));
	CHECK(cuLaunchGrid(scale, (N + 127) / 128, 1));
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuParamSetf(scale, 8, -1.0f));
	CHECK(cuLaunchGridAsync(scale, (N + 127) / 128, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH(x, dx, sizeof x));
	for (int i = 0; i < N; i++)
		REQUIRE(x[i] == (float)i * -2.5f);
	CHECK(cuMemcpyDtoH(&threads, counter, sizeof threads));
	REQUIRE(threads == 2 * N);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuCtxDestroy(ctx));
	puts("legacy_launch: PASS");
	return 0;
}
