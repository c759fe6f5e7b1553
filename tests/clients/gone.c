// Uses the GPU until its backend is gone: calls fail from then on, and none hangs.
#include "driver.h"

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr d;
	static char buffer[1 << 16];
	CUresult r;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&d, sizeof buffer));
	puts("running");
	fflush(stdout);
	do
		r = cuMemcpyHtoD(d, buffer, sizeof buffer);
	while (r == CUDA_SUCCESS);
	EXPECT(46, r); // CUDA_ERROR_DEVICE_UNAVAILABLE
	EXPECT(46, cuCtxSynchronize());
	CHECK(cuCtxDestroy(ctx));
	EXPECT(46, cuCtxCreate(&ctx, 0, dev));
	puts("gone: PASS");
	return 0;
}
