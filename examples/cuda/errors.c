// What goes wrong gives CUDA's own errors: wrong handles, pointers to nothing,
// sizes that overflow, calls too early, images that do not fit.
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "kernels.h"

int main(void)
{
	CUdevice dev;
	CUcontext ctx, other;
	CUmodule mod;
	CUfunction add;
	CUdeviceptr d;
	CUstream stream;
	CUevent event;
	const char *text;
	char buffer[64];
	void *fn = &fn;
	int n = 16, status = -1;
	CUdriverProcAddressQueryResult how;
	CUipcMemHandle shared;
	size_t size;
	char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(gone != MAP_FAILED && munmap(gone + 4096, 4096) == 0 && mprotect(gone, 4096, PROT_READ) == 0);
	void *nowhere = gone + 4096, *readonly = gone;

	// Too early.
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet(&dev, 0));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&d, 16));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	CHECK(cuInit(0));
	CHECK(cuInit(0));

	// Devices and texts.
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, 99));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, -1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(nowhere, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(readonly, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(buffer, 0, 0));
	CHECK(cuDeviceGetName(buffer, 4, 0));
	REQUIRE(strlen(buffer) == 3);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&n, 100000, 0));
	CHECK(cuGetErrorName(CUDA_ERROR_NO_BINARY_FOR_GPU, &text));
	REQUIRE(strcmp(text, "CUDA_ERROR_NO_BINARY_FOR_GPU") == 0);
	CHECK(cuGetErrorString(CUDA_SUCCESS, &text));
	REQUIRE(strlen(text) > 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(12345, &text));
	REQUIRE(text == NULL);

	// Entry points by name.
	CHECK(cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, &how));
	REQUIRE(fn == (void *)cuMemAlloc && how == CU_GET_PROC_ADDRESS_SUCCESS);
	CHECK(cuGetProcAddress_v2("cuLaunchKernel", &fn, 12000, 2, &how));
	REQUIRE(fn != (void *)cuLaunchKernel && fn != NULL);
	CHECK(cuGetProcAddress_v2("cuNoSuchThing", &fn, 12000, 0, &how)); // the status says it, and the null pointer
	REQUIRE(fn == NULL && how == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CHECK(cuGetProcAddress_v2("cuGetProcAddress", &fn, 3020, 0, &how));
	REQUIRE(fn == NULL && how == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

	// No context.
	CHECK(cuDeviceGet(&dev, 0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&d, 16));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&ctx));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)nowhere));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxDestroy(NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(NULL, 0, dev));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&ctx, 0, 7));
	CHECK(cuCtxCreate(&ctx, 0, dev));

	// Memory.
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&d, 0));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&d, SIZE_MAX));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&d, &size, SIZE_MAX / 2, SIZE_MAX / 2, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(nowhere, 16));
	CHECK(cuMemAlloc(&d, 4096));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(d + 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, NULL, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, nowhere, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, gone, 4097));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(readonly, d, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(nowhere, d, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, buffer, SIZE_MAX));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d + 4090, buffer, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(1, buffer, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(d, 1, SIZE_MAX / 2));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(NULL));
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = buffer, .srcPitch = SIZE_MAX / 2, .srcY = 9,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d, .WidthInBytes = 8, .Height = 8};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rows));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(buffer));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(nowhere, 16, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&shared, 1));

	// Modules.
	unsigned char cubin[64] = {0x7f, 'E', 'L', 'F'};
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&mod, cubin));
	EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&mod, "no PTX"));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&mod, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&mod, nowhere));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&mod, "/no/such/file"));
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&add, mod, "subtract"));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&add, mod, nowhere));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&add, (CUmodule)ctx, "vector_add"));
	CHECK(cuModuleGetFunction(&add, mod, "vector_add"));

	// Launches.
	void *args[] = {&d, &d, nowhere, &n}, *nulls[] = {&d, &d, NULL, &n};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, nulls, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, nowhere, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, NULL, nowhere));
	args[2] = &d;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 0, 1, 1, 16, 1, 1, 0, NULL, args, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 1 << 20, 1, 1, 0, NULL, args, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)mod, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, (CUstream)nowhere, args, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSeti(add, -4, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuParamSeti(add, 1 << 20, 1));

	// Streams and events that are gone.
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuStreamDestroy(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
	CHECK(cuEventCreate(&event, 0));
	CHECK(cuEventDestroy(event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, NULL));
	CHECK(cuModuleUnload(mod));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL));

	// A child without exec has no driver, and does not hang.
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0)
		_exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);

	// A kernel that faults ends its context, and only that.
	CHECK(cuModuleLoadData(&mod, vector_ptx));
	CHECK(cuModuleGetFunction(&add, mod, "vector_add"));
	CUdeviceptr wild = 0x1000;
	args[0] = &wild;
	CHECK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&d, 16));
	CHECK(cuCtxDestroy(ctx));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(ctx));
	CHECK(cuCtxCreate(&other, 0, dev));
	CHECK(cuMemAlloc(&d, 16));
	CHECK(cuCtxDestroy(other));
	puts("errors: PASS");
	return 0;
}
