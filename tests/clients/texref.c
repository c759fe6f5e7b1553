// References to textures and surfaces, as programs of the driver API before CUDA 12 have them:
// kernels read through them what is bound when they are launched.
#include "driver.h"

#ifndef USE_CUDA_H
typedef struct CUarray_st *CUarray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct { size_t Width, Height; unsigned Format, NumChannels; } CUDA_ARRAY_DESCRIPTOR;
typedef struct { size_t Width, Height, Depth; unsigned Format, NumChannels, Flags; } CUDA_ARRAY3D_DESCRIPTOR;
enum { CU_AD_FORMAT_UNSIGNED_INT8 = 1, CU_AD_FORMAT_FLOAT = 0x20, CUDA_ARRAY3D_SURFACE_LDST = 2, CU_TRSA_OVERRIDE_FORMAT = 1 };
enum { CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR, CU_TR_ADDRESS_MODE_WRAP = 0, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_BORDER = 3 };
enum { CU_TRSF_READ_AS_INTEGER = 1, CU_TRSF_NORMALIZED_COORDINATES };
#define cuArrayCreate cuArrayCreate_v2
#define cuArray3DCreate cuArray3DCreate_v2
#define cuMemcpyHtoA cuMemcpyHtoA_v2
#define cuMemcpyAtoH cuMemcpyAtoH_v2
#define cuTexRefSetAddress cuTexRefSetAddress_v2
#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v3
CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description);
CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description);
CUresult cuMemcpyHtoA(CUarray to, size_t at, const void *from, size_t bytes);
CUresult cuMemcpyAtoH(void *to, CUarray from, size_t at, size_t bytes);
CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name);
CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name);
CUresult cuTexRefSetAddress(size_t *offset, CUtexref reference, CUdeviceptr address, size_t bytes);
CUresult cuTexRefSetAddress2D(CUtexref reference, const CUDA_ARRAY_DESCRIPTOR *description, CUdeviceptr address, size_t pitch);
CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned flags);
CUresult cuTexRefSetFormat(CUtexref reference, unsigned format, int channels);
CUresult cuTexRefSetFlags(CUtexref reference, unsigned flags);
CUresult cuTexRefSetFilterMode(CUtexref reference, int mode);
CUresult cuTexRefSetAddressMode(CUtexref reference, int dim, int mode);
CUresult cuTexRefSetBorderColor(CUtexref reference, float *colour);
CUresult cuTexRefSetMipmapLevelBias(CUtexref reference, float bias);
CUresult cuTexRefSetMipmapLevelClamp(CUtexref reference, float least, float greatest);
CUresult cuTexRefGetMipmapLevelBias(float *bias, CUtexref reference);
CUresult cuTexRefGetMipmapLevelClamp(float *least, float *greatest, CUtexref reference);
CUresult cuSurfRefSetArray(CUsurfref reference, CUarray array, unsigned flags);
#endif

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n.global .texref t;\n.global .surfref s;\n"
	".visible .entry fetch(.param .u64 out, .param .u32 i)\n{\n.reg .u64 %o; .reg .u32 %i; .reg .f32 %f<4>;\n"
	"ld.param.u64 %o, [out]; ld.param.u32 %i, [i];\n"
	"tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [t, {%i}]; st.global.f32 [%o], %f0; ret;\n}\n"
	".visible .entry fetch2(.param .u64 out, .param .f32 x, .param .f32 y)\n{\n.reg .u64 %o; .reg .f32 %f<4>, %x, %y;\n"
	"ld.param.u64 %o, [out]; ld.param.f32 %x, [x]; ld.param.f32 %y, [y];\n"
	"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [t, {%x, %y}]; st.global.f32 [%o], %f0; ret;\n}\n"
	".visible .entry write(.param .u32 i, .param .u32 v)\n{\n.reg .u32 %i, %v; .reg .u32 %b;\n"
	"ld.param.u32 %i, [i]; ld.param.u32 %v, [v]; shl.b32 %b, %i, 2;\n"
	"sust.b.1d.b32.trap [s, {%b}], {%v}; ret;\n}\n";

static CUfunction fetch, fetch2;
static CUdeviceptr out;

static float run(CUfunction f, void **arguments)
{
	float v = -1;
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	CHECK(cuMemcpyDtoH(&v, out, 4));
	return v;
}

static void expect(const char *what, float got, float want)
{
	if (got != want)
		printf("%s: %g and not %g\n", what, got, want), exit(1);
}

static float at(int i) { return run(fetch, (void *[]){&out, &i}); }
static float at2(float x, float y) { return run(fetch2, (void *[]){&out, &x, &y}); }

static void linear_memory(CUtexref t)
{
	float data[256];
	unsigned char bytes[4] = {0, 51, 255, 102};
	size_t offset = 9;
	CUdeviceptr p;
	for (int i = 0; i < 256; i++)
		data[i] = (float)i;
	CHECK(cuMemAlloc(&p, sizeof data));
	CHECK(cuMemcpyHtoD(p, data, sizeof data));
	CHECK(cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 1));
	CHECK(cuTexRefSetAddress(&offset, t, p, sizeof data));
	expect("offset", (float)offset, 0);
	expect("element", at(7), 7);
	expect("beyond", at(1000), 0);
	CHECK(cuTexRefSetAddress(&offset, t, p + 16, 64));
	expect("offset within", (float)offset, 16);
	expect("element behind it", at(7 + (int)offset / 4), 11);
	expect("element at the end", at(20), 0);
	CHECK(cuTexRefSetFormat(t, CU_AD_FORMAT_UNSIGNED_INT8, 1));
	CHECK(cuMemcpyHtoD(p, bytes, sizeof bytes));
	expect("byte as a number", at(1), 51.0f / 255);
}

static void rows(CUtexref t)
{
	float data[4][64] = {{0}}, border[4] = {5, 0, 0, 0};
	CUDA_ARRAY_DESCRIPTOR d = {4, 4, CU_AD_FORMAT_FLOAT, 1};
	CUdeviceptr p;
	for (int i = 0; i < 16; i++)
		data[i / 4][i % 4] = (float)i;
	CHECK(cuMemAlloc(&p, sizeof data));
	CHECK(cuMemcpyHtoD(p, data, sizeof data));
	CHECK(cuTexRefSetAddress2D(t, &d, p, sizeof data[0]));
	expect("row", at2(2.5f, 1.5f), 6);
	CHECK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR)); // of what is bound
	expect("between", at2(3, 2), 8.5f);
	CHECK(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES));
	expect("normalized", at2(0.5f, 0.5f), 7.5f);
	CHECK(cuTexRefSetAddressMode(t, 0, CU_TR_ADDRESS_MODE_BORDER));
	CHECK(cuTexRefSetAddressMode(t, 1, CU_TR_ADDRESS_MODE_BORDER));
	CHECK(cuTexRefSetBorderColor(t, border));
	expect("border", at2(9, 9), 5);
}

static void arrays(CUtexref t, CUsurfref s, CUfunction write)
{
	float data[16], v;
	unsigned i = 3, bits;
	CUDA_ARRAY_DESCRIPTOR d = {4, 4, CU_AD_FORMAT_FLOAT, 1};
	CUDA_ARRAY3D_DESCRIPTOR d3 = {8, 0, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUarray array, surface;
	for (int k = 0; k < 16; k++)
		data[k] = (float)(100 + k);
	CHECK(cuArrayCreate(&array, &d));
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = data, .srcPitch = 16, .dstMemoryType = (CUmemorytype)3,
		.dstArray = array, .WidthInBytes = 16, .Height = 4};
	CHECK(cuMemcpy2D(&copy));
	CHECK(cuTexRefSetFlags(t, 0));
	CHECK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_POINT));
	CHECK(cuTexRefSetArray(t, array, CU_TRSA_OVERRIDE_FORMAT));
	expect("array", at2(1.5f, 2.5f), 109);
	CHECK(cuArray3DCreate(&surface, &d3));
	CHECK(cuSurfRefSetArray(s, surface, 0));
	v = 42;
	memcpy(&bits, &v, 4);
	void *arguments[] = {&i, &bits};
	CHECK(cuLaunchKernel(write, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	CHECK(cuMemcpyAtoH(data, surface, 12, 4));
	expect("surface", data[0], 42);
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUfunction write;
	CUtexref t;
	CUsurfref s;
	float a = 0, b = 0;
	CHECK(cuInit(0));
	CHECK(cuCtxCreate(&context, 0, 0));
	CHECK(cuModuleLoadData(&module, ptx));
	CUresult r = cuModuleGetTexRef(&t, module, "t");
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		printf("texref: PASS (no textures)\n");
		return 0;
	}
	CHECK(r);
	CHECK(cuModuleGetSurfRef(&s, module, "s"));
	CHECK(cuModuleGetFunction(&fetch, module, "fetch"));
	CHECK(cuModuleGetFunction(&fetch2, module, "fetch2"));
	CHECK(cuModuleGetFunction(&write, module, "write"));
	CHECK(cuMemAlloc(&out, 4));
	CHECK(cuTexRefSetMipmapLevelBias(t, 1.5f));
	CHECK(cuTexRefSetMipmapLevelClamp(t, 0.25f, 2.5f));
	CHECK(cuTexRefGetMipmapLevelBias(&a, t));
	expect("bias", a, 1.5f);
	CHECK(cuTexRefGetMipmapLevelClamp(&a, &b, t));
	expect("least level", a, 0.25f);
	expect("greatest level", b, 2.5f);
	linear_memory(t);
	rows(t);
	arrays(t, s, write);
	CHECK(cuModuleUnload(module));
	CHECK(cuCtxDestroy(context));
	printf("texref: PASS\n");
	return 0;
}
