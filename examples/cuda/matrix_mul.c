// Multiplies matrices with tiles in shared memory. The module is compiled with
// options, linked first, and launched in both ways that cuLaunchKernel has.
#include "driver.h"
#include "kernels.h"

enum { N = 64 };

static void verify(const float *a, const float *b, const float *c)
{
	for (int y = 0; y < N; y++)
		for (int x = 0; x < N; x++) {
			float sum = 0;
			for (int k = 0; k < N; k++)
				sum += a[y * N + k] * b[k * N + x];
			REQUIRE(c[y * N + x] == sum); // small whole numbers, so exact
		}
}

int main(void)
{
	static float a[N * N], b[N * N], c[N * N];
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction mul;
	CUlinkState link;
	CUdeviceptr d[3];
	void *image;
	size_t size;
	int n = N, threads, blocks, grid, block;

	for (int i = 0; i < N * N; i++) {
		a[i] = (float)(i % 7 - 3);
		b[i] = (float)(i % 5 - 2);
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));

	CHECK(cuLinkCreate(0, NULL, NULL, &link));
	CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)matrix_ptx, sizeof matrix_ptx, "matrix", 0, NULL, NULL));
	CHECK(cuLinkComplete(link, &image, &size));
	char info[512] = "", error[512] = "";
	CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error};
	CHECK(cuModuleLoadDataEx(&mod, image, 4, options, values));
	CHECK(cuLinkDestroy(link));
	REQUIRE(strlen(info) > 0 && strlen(error) == 0);

	// A module that is refused says why.
	CUmodule none;
	values[1] = (void *)sizeof info, values[3] = (void *)sizeof error;
	EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&none, ".version 6.0\n.target sm_50\n.address_size 64\nnonsense", 4, options, values));
	REQUIRE(strlen(error) > 0 && (size_t)values[3] == strlen(error) + 1);

	CHECK(cuModuleGetFunction(&mul, mod, "matrix_mul"));
	CHECK(cuFuncGetAttribute(&threads, 0, mul));
	REQUIRE(threads >= 256);
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mul, 256, 0));
	CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, mul, NULL, 0, 0));
	REQUIRE(blocks > 0 && grid > 0 && block > 0);

	for (int i = 0; i < 3; i++)
		CHECK(cuMemAlloc(&d[i], sizeof a));
	CHECK(cuMemcpyHtoD(d[0], a, sizeof a));
	CHECK(cuMemcpyHtoD(d[1], b, sizeof b));

	void *args[] = {&d[0], &d[1], &d[2], &n};
	CHECK(cuLaunchKernel(mul, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
	CHECK(cuMemcpyDtoH(c, d[2], sizeof c));
	verify(a, b, c);

	CHECK(cuMemsetD8(d[2], 0, sizeof c));
	struct {
		CUdeviceptr a, b, c;
		int n;
	} packed = {d[0], d[1], d[2], n};
	size_t packed_size = 28;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size, CU_LAUNCH_PARAM_END};
	CHECK(cuLaunchKernel(mul, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, NULL, extra));
	memset(c, 0, sizeof c);
	CHECK(cuMemcpyDtoH(c, d[2], sizeof c));
	verify(a, b, c);

	CHECK(cuDevicePrimaryCtxRelease(dev));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemcpyDtoH(c, d[2], sizeof c));
	puts("matrix_mul: PASS");
	return 0;
}
