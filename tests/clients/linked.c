// Links several PTX sources with cuLink, and loads the units of a program that nvcc -rdc=true makes:
// a wrapper of version 2, whose third word leads to the fatbins of the units.
#include <string.h>

#include "driver.h"

#define HEADER ".version 7.0\n.target sm_50\n.address_size 64\n"

extern CUresult cuLibraryLoadData(void **, const void *, void *, void **, unsigned, void *, void **, unsigned);
extern CUresult cuLibraryGetKernel(void **, void *, const char *);
extern CUresult cuModuleLoadFatBinary(CUmodule *, const void *);

#define INVALID_SOURCE 300
#define UNKNOWN 999

// Both have a variable "own" of their own, and a weak function "twice".
#define WEAK                                                                                               \
	".weak .func (.param .b32 r) twice(.param .b32 x)\n"                                               \
	"{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [x];\nshl.b32 %r2, %r1, 1;\nst.param.b32 [r], %r2;\nret;\n}\n"
static const char kernels[] = HEADER
	".extern .func (.param .b32 r) add(.param .b32 x);\n"
	".extern .global .align 4 .b8 table[8];\n"
	".global .align 4 .u32 own = 5;\n" WEAK
	".visible .entry k(.param .u64 out)\n"
	"{\n.reg .b32 %r<6>;\n.reg .b64 %rd<2>;\n.param .b32 x;\n.param .b32 y;\n.param .b32 z;\n"
	"ld.param.u64 %rd1, [out];\nld.global.u32 %r1, [own];\nst.param.b32 [x], %r1;\n"
	"call.uni (y), add, (x);\nld.param.b32 %r2, [y];\nst.param.b32 [x], %r2;\n"
	"call.uni (z), twice, (x);\nld.param.b32 %r3, [z];\nld.global.u32 %r4, [table+4];\n"
	"add.s32 %r5, %r3, %r4;\nst.global.u32 [%rd1], %r5;\nret;\n}\n";
static const char functions[] = HEADER
	".visible .global .align 4 .u32 table[2] = {1, 1000};\n"
	".global .align 4 .u32 own = 30;\n" WEAK
	".visible .func (.param .b32 r) add(.param .b32 x)\n"
	"{\n.reg .b32 %r<4>;\nld.param.b32 %r1, [x];\nld.global.u32 %r2, [own];\nadd.s32 %r3, %r1, %r2;\nst.param.b32 [r], %r3;\nret;\n}\n";
static const int right = 2 * (5 + 30) + 1000;

static CUdeviceptr out;

static void launch(CUfunction f)
{
	void *params[] = {&out};
	int got = 0;
	CHECK(cuMemsetD32(out, 0, 1));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(&got, out, sizeof got));
	REQUIRE(got == right);
}

static void run(CUmodule module)
{
	CUfunction f;
	CHECK(cuModuleGetFunction(&f, module, "k"));
	launch(f);
	CHECK(cuModuleUnload(module));
}

static CUresult add(CUlinkState state, const char *source, const char *name)
{
	return cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)source, strlen(source) + 1, name, 0, NULL, NULL);
}

static void sources(void)
{
	for (int reversed = 0; reversed < 2; reversed++) {
		CUlinkState state;
		CUmodule module;
		void *cubin;
		size_t size;
		CHECK(cuLinkCreate(0, NULL, NULL, &state));
		CHECK(add(state, reversed ? functions : kernels, "in0"));
		CHECK(add(state, reversed ? kernels : functions, "in1"));
		CHECK(cuLinkComplete(state, &cubin, &size));
		CHECK(cuModuleLoadData(&module, cubin));
		CHECK(cuLinkDestroy(state));
		run(module);
	}
}

// A limit of registers works: as an option of a module, and of a linker, for its result.
static void registers(void)
{
	static char text[1 << 14];
	char *at = text + sprintf(text, HEADER ".visible .entry k(.param .u64 q)\n{\n.reg .u64 %%q;\n.reg .f32 %%f<100>;\nld.param.u64 %%q, [q];\n");
	for (int i = 0; i < 100; i++)
		at += sprintf(at, "ld.volatile.global.f32 %%f%d, [%%q+%d];\n", i, 4 * i);
	for (int i = 99; i >= 0; i--)
		at += sprintf(at, "st.volatile.global.f32 [%%q+%d], %%f%d;\n", 4 * i, i);
	sprintf(at, "ret;\n}\n");
	CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
	void *values[] = {(void *)32}, *cubin;
	CUmodule module[3];
	CUlinkState state;
	size_t size;
	CHECK(cuModuleLoadData(&module[0], text));
	CHECK(cuModuleLoadDataEx(&module[1], text, 1, options, values));
	CHECK(cuLinkCreate(1, options, values, &state));
	CHECK(add(state, text, "in"));
	CHECK(cuLinkComplete(state, &cubin, &size));
	CHECK(cuModuleLoadData(&module[2], cubin));
	CHECK(cuLinkDestroy(state));
	for (int i = 0; i < 3; i++) {
		CUfunction f;
		int n;
		CHECK(cuModuleGetFunction(&f, module[i], "k"));
		CHECK(cuFuncGetAttribute(&n, 4, f)); // CU_FUNC_ATTRIBUTE_NUM_REGS
		REQUIRE(i == 0 ? n > 32 : n == 32);
		CHECK(cuModuleUnload(module[i]));
	}
}

// The log and the results are those of NVIDIA's linker.
static void refused(void)
{
	char log[200] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	CUlinkState state;
	void *cubin, *values[] = {log, (void *)sizeof log};
	size_t size;
	CHECK(cuLinkCreate(2, options, values, &state));
	CHECK(add(state, kernels, "in0"));
	EXPECT(INVALID_SOURCE, cuLinkComplete(state, &cubin, &size));
	REQUIRE(strstr(log, "error   : Undefined reference to 'add' in 'in0'") != NULL);
	REQUIRE(strstr(log, "error   : Undefined reference to 'table' in 'in0'") != NULL);
	CHECK(cuLinkDestroy(state));

	values[1] = (void *)sizeof log;
	CHECK(cuLinkCreate(2, options, values, &state));
	CHECK(add(state, kernels, "in0"));
	CHECK(add(state, functions, "in1"));
	EXPECT(INVALID_SOURCE, add(state, functions, "in2"));
	REQUIRE(strstr(log, "Multiple definition of 'table' in 'in2', first defined in 'in1'") != NULL);
	EXPECT(UNKNOWN, cuLinkComplete(state, &cubin, &size));
	CHECK(cuLinkDestroy(state));

	CHECK(cuLinkCreate(0, NULL, NULL, &state));
	EXPECT(CUDA_ERROR_INVALID_PTX, add(state, HEADER ".visible .entry k()\n{\nadd.u32 %r1 %r2;\n}\n", "in0"));
	EXPECT(UNKNOWN, cuLinkComplete(state, &cubin, &size));
	CHECK(cuLinkDestroy(state));
}

// A fatbin with one image, without compression: PTX (kind 1), or machine code (kind 2).
struct fatbin {
	unsigned magic;
	unsigned short version, header;
	unsigned long long bytes;
	struct {
		unsigned short kind, version;
		unsigned header;
		unsigned long long bytes;
		unsigned packed[3], architecture;
		unsigned long long names, flags, none, unpacked;
	} image;
	char data[2048];
};

static void make(struct fatbin *f, int kind, const char *data, size_t n)
{
	memset(f, 0, sizeof *f);
	f->magic = 0xba55ed50, f->version = 1, f->header = 16, f->bytes = sizeof f->image + sizeof f->data;
	f->image.kind = kind, f->image.version = 0x101, f->image.header = sizeof f->image, f->image.bytes = sizeof f->data;
	f->image.architecture = 50, f->image.flags = 1;
	REQUIRE(n <= sizeof f->data);
	memcpy(f->data, data, n);
}

static void units(void)
{
	static struct fatbin machine, first, second, runtime;
	static const char mark[] = "\177ELF with __CNPRT_VERSION_NUMBER__";
	const void *parts[] = {&first, &runtime, &second, NULL};
	struct {
		unsigned magic, version;
		const void *fatbin, *const *units;
	} wrapper = {0x466243b1, 2, &machine, parts};
	CUmodule module;
	void *library, *kernel;
	make(&machine, 2, "\177ELF", 4);
	make(&first, 1, kernels, sizeof kernels);
	make(&second, 1, functions, sizeof functions);
	make(&runtime, 2, mark, sizeof mark); // as libcudadevrt is
	CHECK(cuModuleLoadData(&module, &wrapper));
	run(module);
	CHECK(cuModuleLoadFatBinary(&module, &wrapper));
	run(module);
	CHECK(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "k"));
	launch((CUfunction)kernel);
	parts[1] = &machine; // a unit with machine code only
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &wrapper));
	parts[0] = NULL;
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &wrapper));
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, 0, device));
	CHECK(cuMemAlloc(&out, 4));
	sources();
	refused();
	registers();
	units();
	puts("linked: PASS");
	return 0;
}
