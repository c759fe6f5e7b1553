// Transposes a matrix by way of tensor maps: each block loads a box, which mbarriers count, turns it around in
// shared memory and stores it as a box of another tensor. The boxes hang over the borders of both. A device
// below compute capability 9.0 refuses tensor maps.
#include <string.h>

#include "driver.h"

typedef struct { _Alignas(64) unsigned long long opaque[16]; } Map;
extern CUresult cuTensorMapEncodeTiled(Map *, int type, unsigned rank, void *address, const unsigned long long *dim,
	const unsigned long long *stride, const unsigned *box, const unsigned *step, int interleave, int swizzle, int promotion, int fill);
extern CUresult cuTensorMapReplaceAddress(Map *, void *address);

enum { WIDTH = 100, HEIGHT = 60, TILE = 32, PITCH = 112, TURNED_PITCH = 64, FLOAT32 = 7, TENSOR_MAP_ACCESS = 127, ILLEGAL_INSTRUCTION = 715 };

static const char ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry transpose(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])\n{\n"
	".reg .pred %p, %first;\n.reg .b32 %x, %y, %t, %i, %r, %c, %in, %out, %v;\n.reg .b64 %from, %to, %state;\n"
	".shared .align 128 .b8 in[4096];\n.shared .align 128 .b8 out[4096];\n.shared .align 8 .b64 bar;\n"
	"mov.b64 %from, from;\ncvta.param.u64 %from, %from;\nmov.b64 %to, to;\ncvta.param.u64 %to, %to;\n"
	"mov.u32 %t, %tid.x;\nmov.u32 %in, in;\nmov.u32 %out, out;\n"
	"mov.u32 %x, %ctaid.x;\nshl.b32 %x, %x, 5;\nmov.u32 %y, %ctaid.y;\nshl.b32 %y, %y, 5;\n"
	"setp.eq.u32 %first, %t, 0;\n@%first mbarrier.init.shared::cta.b64 [bar], 1;\nfence.proxy.async;\nbar.sync 0;\n@!%first bra wait;\n"
	"prefetch.tensormap [%to];\n"
	"mbarrier.arrive.expect_tx.shared::cta.b64 %state, [bar], 4096;\n"
	"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [in], [%from, {%x, %y}], [bar];\n"
	"wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n@!%p bra wait;\n"
	"mov.u32 %i, %t;\n"
	"next:\nshr.u32 %r, %i, 5;\nand.b32 %c, %i, 31;\nmad.lo.u32 %v, %i, 4, %in;\nld.shared.b32 %v, [%v];\n"
	"mad.lo.u32 %c, %c, 32, %r;\nmad.lo.u32 %c, %c, 4, %out;\nst.shared.b32 [%c], %v;\n"
	"add.u32 %i, %i, 128;\nsetp.lt.u32 %p, %i, 1024;\n@%p bra next;\n"
	"fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%first bra done;\n"
	"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%to, {%y, %x}], [out];\n"
	"cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
	"done:\nret;\n}\n";

static Map describe(CUdeviceptr p, unsigned long long width, unsigned long long height, unsigned long long pitch)
{
	Map m;
	unsigned long long dim[] = {width, height}, stride[] = {4 * pitch};
	unsigned box[] = {TILE, TILE}, step[] = {1, 1};
	CHECK(cuTensorMapEncodeTiled(&m, FLOAT32, 2, (void *)p, dim, stride, box, step, 0, 0, 0, 0));
	return m;
}

static CUresult transpose(CUfunction f, Map *from, Map *to)
{
	void *params[] = {from, to};
	CHECK(cuLaunchKernel(f, (WIDTH + TILE - 1) / TILE, (HEIGHT + TILE - 1) / TILE, 1, 128, 1, 1, 0, NULL, params, NULL));
	return cuCtxSynchronize();
}

static void fail(int x, int y, float got, float want)
{
	fprintf(stderr, "row %d, column %d: %g, want %g\n", x, y, got, want);
	exit(1);
}

static void compare(CUdeviceptr p, float scale)
{
	static float turned[WIDTH][TURNED_PITCH];
	CHECK(cuMemcpyDtoH(turned, p, sizeof turned));
	for (int x = 0; x < WIDTH; x++)
		for (int y = 0; y < TURNED_PITCH; y++) {
			float want = y < HEIGHT ? scale * (1000 * y + x) : -1; // beyond its border nothing is written
			if (turned[x][y] != want)
				fail(x, y, turned[x][y], want);
		}
}

static CUdeviceptr matrix(float scale)
{
	static float m[HEIGHT][PITCH];
	CUdeviceptr p;
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < PITCH; x++)
			m[y][x] = x < WIDTH ? scale * (1000 * y + x) : -2;
	CHECK(cuMemAlloc(&p, sizeof m));
	CHECK(cuMemcpyHtoD(p, m, sizeof m));
	return p;
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction f;
	CUdeviceptr turned;
	int able = 0;
	Map m;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetAttribute(&able, (CUdevice_attribute)TENSOR_MAP_ACCESS, dev));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	if (!able) {
		EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuTensorMapReplaceAddress(&m, (void *)4096));
		puts("tensors: PASS (the device has no tensor maps)");
		return 0;
	}
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&f, mod, "transpose"));
	CHECK(cuMemAlloc(&turned, WIDTH * TURNED_PITCH * 4));
	CHECK(cuMemsetD32(turned, 0xbf800000, WIDTH * TURNED_PITCH)); // -1
	Map from = describe(matrix(1), WIDTH, HEIGHT, PITCH), to = describe(turned, HEIGHT, WIDTH, TURNED_PITCH);
	CHECK(transpose(f, &from, &to));
	compare(turned, 1);
	CHECK(cuTensorMapReplaceAddress(&from, (void *)matrix(2)));
	CHECK(transpose(f, &from, &to));
	compare(turned, 2);
	memset(&to, 0, sizeof to);
	EXPECT(ILLEGAL_INSTRUCTION, transpose(f, &from, &to));
	puts("tensors: PASS");
	return 0;
}
