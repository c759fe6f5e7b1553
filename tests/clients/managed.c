// Managed memory: one address for the program and the device, also where two
// contexts have their memory at the same addresses of the GPU.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "driver.h"

enum { MANY = 40 };

static void use(CUdeviceptr m, size_t n)
{
	unsigned char *p = (unsigned char *)m;
	CUdeviceptr d;
	CHECK(cuMemAlloc(&d, n));
	p[0] = 1;
	p[n - 1] = 2;
	CHECK(cuMemcpyDtoD(d, m, n)); // the device reads what the program wrote
	CHECK(cuMemsetD8(m, 7, n));
	CHECK(cuCtxSynchronize());
	REQUIRE(p[0] == 7 && p[n / 2] == 7 && p[n - 1] == 7);
	CHECK(cuMemcpyDtoH(p, d, n));
	REQUIRE(p[0] == 1 && p[n - 1] == 2);
	CHECK(cuMemFree(d));
}

int main(void)
{
	CUdevice dev;
	CUcontext a, b;
	CUdeviceptr first, second, many[MANY];
	int v = 0;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, dev));
	REQUIRE(v == 1);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocManaged(&first, 64, 1));
	CHECK(cuCtxCreate(&a, 0, dev));
	CHECK(cuCtxCreate(&b, 0, dev));
	CHECK(cuMemAllocManaged(&first, 5 << 20, 1));
	use(first, 5 << 20);
	CHECK(cuCtxSetCurrent(a));
	CHECK(cuMemAllocManaged(&second, 4096, 2));
	REQUIRE(second + 4096 <= first || second >= first + (5 << 20));
	use(second, 4096);
	CHECK(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_MANAGED, second + 1));
	REQUIRE(v == 1);
	CHECK(cuMemAdvise(second, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, dev));
	CHECK(cuMemPrefetchAsync(second, 4096, dev, NULL));
	CHECK(cuStreamAttachMemAsync(NULL, second, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(second, 4097, CU_MEM_ADVISE_SET_READ_MOSTLY, dev));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(second - 1, 2, dev, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemPrefetchAsync(second, 4096, dev, (CUstream)0x1234));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, (CUdeviceptr)&v, 0, 1));
	for (int i = 0; i < MANY; i++) {
		CHECK(cuMemAllocManaged(&many[i], 100, 1));
		*(int *)many[i] = i;
	}
	for (int i = 0; i < MANY; i++) {
		REQUIRE(*(int *)many[i] == i);
		CHECK(cuMemFree(many[i]));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&many[0], 100, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&many[0], 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(NULL, 100, 1));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&many[0], (size_t)1 << 60, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)second));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(second + 8));
	CHECK(cuMemFree(second));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(second));
	// Memory that lies in the pool by now comes back at another address, or the same.
	CHECK(cuMemAllocManaged(&second, 4096, 1));
	use(second, 4096);
	CHECK(cuCtxDestroy(a)); // with second in it
	CHECK(cuCtxSetCurrent(b));
	use(first, 5 << 20);
	CHECK(cuMemFree(first));
	CHECK(cuCtxDestroy(b));

	// A program may have something of its own at all of the device's addresses, as
	// with a sanitizer. Pinned memory lies elsewhere then.
	const size_t window = (size_t)64 << 30;
	void *mapped = mmap((void *)(first / window * window), window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	void *pinned;
	REQUIRE(mapped == (void *)(first / window * window));
	CHECK(cuCtxCreate(&a, 0, dev));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&first, 4096, 1));
	CHECK(cuMemAllocHost(&pinned, 4096));
	CHECK(cuMemHostGetDevicePointer(&first, pinned, 0));
	REQUIRE(first != (CUdeviceptr)pinned);
	CHECK(cuMemsetD8(first, 3, 4096));
	REQUIRE(*(char *)pinned == 3);
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuCtxDestroy(a));
	puts("managed: PASS");
	return 0;
}
