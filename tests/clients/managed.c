// Managed memory: one address for the program and the device, also where two
// contexts have their memory at the same addresses of the GPU.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "driver.h"

enum { MANY = 40 };

typedef struct CUlib_st *CUlibrary;
CUresult cuLibraryLoadData(CUlibrary *, const void *code, int *, void **, unsigned, int *, void **, unsigned);
CUresult cuLibraryGetManaged(CUdeviceptr *, size_t *, CUlibrary, const char *);
CUresult cuLibraryUnload(CUlibrary);

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

static const char variables[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".global .align 4 .b8 other[8] = {1, 2, 3, 4};\n"
	".visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n"
	".global .attribute(.managed) .align 256 .b8 wide[1000];\n"
	".visible .global .attribute(.managed) .align 8 .u64 to_other = generic(other);\n"
	".global .attribute(.managed) .align 8 .u64 to_counter[2] = {generic(counter), generic(wide)+8};\n"
	".global .align 8 .u64 plain = generic(counter);\n"
	".visible .entry work(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n"
	"ld.param.u64 %d0, [out];\n"
	"atom.global.add.u32 %r0, [counter], 2;\n"
	"mov.u64 %d1, wide;\nst.global.u32 [%d1+996], %r0;\nst.u32 [wide+4], 77;\n"
	"ld.global.u64 %d2, [to_other];\nld.u8 %r1, [%d2+3];\nst.u32 [%d0], %r1;\n"
	"ld.global.u64 %d3, [to_counter];\nld.u32 %r2, [%d3];\nst.u32 [%d0+4], %r2;\n"
	"ld.global.u64 %d4, [plain];\nld.u32 %r3, [%d4];\nst.u32 [%d0+8], %r3;\n"
	"ld.global.u64 %d5, [to_counter+8];\nst.u32 [%d5], 99;\n"
	"cvta.global.u64 %d6, counter;\nsub.u64 %d6, %d6, %d3;\nst.u64 [%d0+16], %d6;\n"
	"ret;\n}\n";

// Variables of modules in managed memory: each module has its own, with what it is to begin with, and
// code and program use one address.
static void of_modules(void)
{
	CUmodule m, other;
	CUlibrary library;
	CUfunction f;
	CUdeviceptr at, again, wide, pointers, out;
	size_t size;
	int v;
	for (int round = 0; round < 2; round++) { // the memory of the first is used again
		CHECK(cuModuleLoadData(&m, variables));
		CHECK(cuModuleGetGlobal(&at, &size, m, "counter"));
		REQUIRE(size == 4 && *(int *)at == 5);
		CHECK(cuModuleGetGlobal(&wide, &size, m, "wide"));
		REQUIRE(size == 1000 && wide % 256 == 0);
		for (int i = 0; i < 1000; i++)
			REQUIRE(((char *)wide)[i] == 0);
		CHECK(cuModuleGetGlobal(&pointers, &size, m, "to_counter"));
		REQUIRE(size == 16 && ((CUdeviceptr *)pointers)[0] == at && ((CUdeviceptr *)pointers)[1] == wide + 8);
		CHECK(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
		REQUIRE(v == 1);
		CHECK(cuModuleLoadData(&other, variables));
		CHECK(cuModuleGetGlobal(&again, NULL, other, "counter"));
		REQUIRE(again != at && *(int *)again == 5);
		*(int *)at = 40;
		CHECK(cuModuleGetFunction(&f, m, "work"));
		CHECK(cuMemAllocManaged(&out, 64, 1));
		void *args[] = {&out};
		CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
		CHECK(cuCtxSynchronize());
		unsigned *got = (unsigned *)out;
		REQUIRE(got[0] == 4 && got[1] == 42 && got[2] == 42 && *(CUdeviceptr *)(got + 4) == 0);
		REQUIRE(*(int *)at == 42 && *(int *)again == 5);
		REQUIRE(*(int *)(wide + 4) == 77 && *(int *)(wide + 8) == 99 && *(int *)(wide + 996) == 40);
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(at));
		CHECK(cuMemFree(out));
		CHECK(cuModuleUnload(m));
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
		CHECK(cuModuleUnload(other));
	}
	CHECK(cuLibraryLoadData(&library, variables, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetManaged(&at, &size, library, "counter"));
	REQUIRE(size == 4 && *(int *)at == 5);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&at, &size, library, "other"));
	CHECK(cuLibraryUnload(library));
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
	of_modules();
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
