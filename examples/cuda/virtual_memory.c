// A vector that grows without moving: its addresses are reserved once, and memory
// is mapped to more and more of them.
#include "driver.h"
#include "kernels.h"

enum { STEPS = 4 };

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction scale;
	CUdeviceptr base;
	CUmemGenericAllocationHandle memory, shared;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}}, got;
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	size_t step;
	int supported = 0;
	unsigned long long flags = 0;
	float by = 2;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, dev));
	REQUIRE(supported);
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&scale, mod, "scale"));
	prop.location.id = access.location.id = dev;
	CHECK(cuMemGetAllocationGranularity(&step, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	CHECK(cuMemAddressReserve(&base, STEPS * step, 0, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, step + 1, &prop, 0));
	prop.requestedHandleTypes = (CUmemAllocationHandleType)2; // of Windows
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&shared, step, &prop, 0));
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;

	int n = 0, more = (int)(step / sizeof(float));
	float *x = malloc(STEPS * step);
	REQUIRE(x != NULL);
	for (int i = 1; i <= STEPS; i++, n += more) {
		CUdeviceptr end = base + n * sizeof(float);
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(end, x, sizeof *x)); // nothing is there yet
		CHECK(cuMemCreate(&memory, step, &prop, 0));
		CHECK(cuMemMap(end, step, 0, memory, 0));
		CHECK(cuMemGetAllocationPropertiesFromHandle(&got, memory));
		REQUIRE(got.type == prop.type && got.location.type == prop.location.type && got.location.id == dev);
		CHECK(cuMemRelease(memory)); // it lives as long as it is mapped
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(memory));
		CHECK(cuMemSetAccess(end, step, &access, 1));
		CHECK(cuMemGetAccess(&flags, &access.location, end));
		REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
		for (int k = 0; k < more; k++)
			x[k] = (float)(n + k);
		CHECK(cuMemcpyHtoD(end, x, step));
		int all = n + more; // what was there before is doubled each time
		void *args[] = {&base, &by, &all};
		CHECK(cuLaunchKernel(scale, (unsigned)(all + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	}
	CHECK(cuMemcpyDtoH(x, base, STEPS * step));
	for (int i = 0; i < STEPS; i++)
		for (int k = i * more; k < (i + 1) * more; k += 37)
			REQUIRE(x[k] == (float)k * (float)(1 << (STEPS - i)));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, STEPS * step));
	CHECK(cuMemUnmap(base, STEPS * step));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(x, base, step));
	CHECK(cuMemAddressFree(base, STEPS * step));
	CHECK(cuCtxDestroy(ctx));
	free(x);
	puts("virtual_memory: PASS");
	return 0;
}
