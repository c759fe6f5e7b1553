// Adds two vectors on the GPU: the smallest complete program of the driver API.
#include "driver.h"
#include "kernels.h"

int main(void)
{
	enum { N = 50000 };
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction add;
	CUdeviceptr da, db, dc;
	size_t bytes = N * sizeof(float);
	float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
	int n = N;

	for (int i = 0; i < N; i++) {
		a[i] = (float)i / 3;
		b[i] = (float)(N - i) / 7;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&add, mod, "vector_add"));
	CHECK(cuMemAlloc(&da, bytes));
	CHECK(cuMemAlloc(&db, bytes));
	CHECK(cuMemAlloc(&dc, bytes));
	CHECK(cuMemcpyHtoD(da, a, bytes));
	CHECK(cuMemcpyHtoD(db, b, bytes));

	void *args[] = {&da, &db, &dc, &n};
	CHECK(cuLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(c, dc, bytes));
	for (int i = 0; i < N; i++)
		REQUIRE(c[i] == a[i] + b[i]);

	CHECK(cuMemFree(da));
	CHECK(cuMemFree(db));
	CHECK(cuMemFree(dc));
	CHECK(cuModuleUnload(mod));
	CHECK(cuCtxDestroy(ctx));
	free(a), free(b), free(c);
	puts("vector_add: PASS");
	return 0;
}
