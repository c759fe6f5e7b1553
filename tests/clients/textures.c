// Hostile texture fetches: coordinates that are NaN, infinite or huge, arrays that the program destroys while
// a kernel reads them, and handles that name no object: these end their context, and nothing else.
#include "driver.h"
#include <math.h>

#ifndef USE_CUDA_H
typedef struct CUarray_st *CUarray;
typedef unsigned long long CUtexObject;
typedef struct {
	size_t Width, Height;
	unsigned Format, NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
typedef struct {
	int resType;
	struct { struct { CUarray hArray; } array; char room[120]; } res;
	unsigned flags;
} CUDA_RESOURCE_DESC;
typedef struct {
	int addressMode[3], filterMode;
	unsigned flags, maxAnisotropy;
	int mipmapFilterMode;
	float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp, borderColor[4];
	int reserved[12];
} CUDA_TEXTURE_DESC;
enum { CU_AD_FORMAT_FLOAT = 0x20, CU_RESOURCE_TYPE_ARRAY = 0, CU_TR_ADDRESS_MODE_CLAMP = 1 };
#define cuArrayCreate cuArrayCreate_v2
CUresult cuArrayCreate(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArrayDestroy(CUarray);
CUresult cuTexObjectCreate(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *, const void *view);
CUresult cuTexObjectDestroy(CUtexObject);
#endif

enum { SIDE = 64, THREADS = 64, LOOKS = 20000, MEMORY_ARRAY = 3 };

// look: thread i reads the texel at at[i], n times, and leaves the sum of what it read.
static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry look(.param .b64 to, .param .b64 at, .param .b64 texture, .param .b32 n)\n{\n"
	".reg .pred %more;\n.reg .b32 %t, %n;\n.reg .b64 %to, %at, %tex, %off;\n.reg .f32 %x, %y, %v, %g, %b, %a, %sum;\n"
	"ld.param.b64 %to, [to];\nld.param.b64 %at, [at];\nld.param.b64 %tex, [texture];\nld.param.b32 %n, [n];\n"
	"mov.u32 %t, %tid.x;\nmul.wide.u32 %off, %t, 8;\nadd.u64 %at, %at, %off;\nld.global.v2.f32 {%x, %y}, [%at];\nmov.f32 %sum, 0f00000000;\n"
	"again:\ntex.2d.v4.f32.f32 {%v, %g, %b, %a}, [%tex, {%x, %y}];\nadd.f32 %sum, %sum, %v;\n"
	"sub.u32 %n, %n, 1;\nsetp.ne.u32 %more, %n, 0;\n@%more bra again;\n"
	"mul.wide.u32 %off, %t, 4;\nadd.u64 %to, %to, %off;\nst.global.f32 [%to], %sum;\nret;\n}\n";

static CUcontext context;
static CUfunction look;
static CUdeviceptr to, at;
static float places[THREADS][2];

static void begin(void)
{
	CUdevice d;
	CUmodule m;
	CHECK(cuDeviceGet(&d, 0));
	CHECK(cuCtxCreate(&context, 0, d));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&look, m, "look"));
	CHECK(cuMemAlloc(&to, 4 * THREADS));
	CHECK(cuMemAlloc(&at, sizeof places));
	CHECK(cuMemcpyHtoD(at, places, sizeof places));
}

// texture makes an array whose texels are all the same, and an object that clamps coordinates.
static CUtexObject texture(float texel, CUarray *array)
{
	static float texels[SIDE][SIDE];
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUDA_MEMCPY2D fill = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = texels, .srcPitch = sizeof texels[0],
		.dstMemoryType = (CUmemorytype)MEMORY_ARRAY, .WidthInBytes = sizeof texels[0], .Height = SIDE};
	CUDA_RESOURCE_DESC from = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC how = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP}};
	CUtexObject t;
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++)
			texels[y][x] = texel;
	CHECK(cuArrayCreate(array, &shape));
	fill.dstArray = *array;
	CHECK(cuMemcpy2D(&fill));
	from.res.array.hArray = *array;
	CHECK(cuTexObjectCreate(&t, &from, &how, NULL));
	return t;
}

static CUresult launch(CUtexObject t, unsigned n)
{
	void *params[] = {&to, &at, &t, &n};
	return cuLaunchKernel(look, 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL);
}

// sums checks that each thread has read the same texel, wherever it looked.
static void sums(float texel, unsigned n)
{
	float got[THREADS];
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(got, to, sizeof got));
	for (int i = 0; i < THREADS; i++)
		if (got[i] != texel * (float)n) {
			fprintf(stderr, "at (%g, %g): %g, want %g\n", places[i][0], places[i][1], got[i], texel * (float)n);
			exit(1);
		}
}

int main(void)
{
	static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 3e38f, 1e-45f, -0.0f, SIDE, 2147483648.0f};
	enum { ODD = sizeof odd / sizeof *odd };
	CUarray array, other;
	for (int i = 0; i < THREADS; i++) {
		places[i][0] = odd[i % ODD];
		places[i][1] = odd[i / ODD % ODD];
	}
	CHECK(cuInit(0));
	begin();
	CUtexObject t = texture(3, &array);
	CHECK(launch(t, 1));
	sums(3, 1);

	// The kernel reads the array to its end, though others take its memory as soon as they can.
	CHECK(launch(t, LOOKS));
	CHECK(cuTexObjectDestroy(t));
	CHECK(cuArrayDestroy(array));
	CUtexObject next = texture(5, &other);
	sums(3, LOOKS);
	CHECK(launch(next, LOOKS));
	sums(5, LOOKS);
	CHECK(cuTexObjectDestroy(next));
	CHECK(cuArrayDestroy(other));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(next));

	// What is no object ends its context, and nothing else. A destroyed one may lie in memory that is kept.
	CUtexObject wild[] = {next, 0, 8, at, at + 4, ~0ULL, 1ULL << 47};
	for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) {
		CUresult r = launch(wild[i], 1);
		if (r == CUDA_SUCCESS)
			r = cuCtxSynchronize();
		if (r == CUDA_SUCCESS && wild[i] != next) {
			fprintf(stderr, "a kernel read by 0x%llx, which is no texture\n", wild[i]);
			return 1;
		}
		(void)cuCtxDestroy(context); // which the error may have ended
		begin();
	}
	CHECK(launch(texture(7, &array), LOOKS));
	sums(7, LOOKS);
	printf("textures: PASS\n");
	return 0;
}
