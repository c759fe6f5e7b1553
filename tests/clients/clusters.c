// Launches blocks in clusters. Each block leaves a row of numbers in its shared memory and adds up those of all
// blocks of its cluster, each read from the block that has it. A device below compute capability 9.0 has no
// clusters.
#include "driver.h"

typedef struct { int id, pad; unsigned value[16]; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; CUstream stream; Attribute *attributes; unsigned n; } Config;
extern CUresult cuLaunchKernelEx(const Config *, CUfunction, void **params, void **extra);
extern CUresult cuFuncSetAttribute(CUfunction, int attribute, int value);
extern CUresult cuOccupancyMaxPotentialClusterSize(int *, CUfunction, const Config *);

enum { BLOCKS = 48, THREADS = 64, CLUSTER_LAUNCH = 120, CLUSTER_DIMENSION = 4, NOT_PORTABLE = 14, INVALID_CLUSTER_SIZE = 912 };

static const char ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry sum(.param .b64 to)\n{\n"
	".reg .pred %more;\n.reg .b32 %t, %b, %v, %row, %n, %far, %sum, %i;\n.reg .b64 %to, %at;\n.shared .align 4 .b32 row[64];\n"
	"mov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmad.lo.u32 %v, %b, 1000, %t;\n"
	"mov.u32 %row, row;\nmad.lo.u32 %row, %t, 4, %row;\nst.shared.b32 [%row], %v;\n"
	"barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
	"mov.u32 %n, %cluster_nctarank;\nmov.u32 %sum, 0;\nmov.u32 %i, 0;\n"
	"next:\nmapa.shared::cluster.u32 %far, %row, %i;\nld.shared::cluster.b32 %v, [%far];\nadd.u32 %sum, %sum, %v;\n"
	"add.u32 %i, %i, 1;\nsetp.lt.u32 %more, %i, %n;\n@%more bra next;\n"
	"barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
	"ld.param.b64 %to, [to];\nmad.lo.u32 %i, %b, 64, %t;\nmad.wide.u32 %at, %i, 4, %to;\nst.global.b32 [%at], %sum;\nret;\n}\n";

static CUresult launch(CUfunction f, CUdeviceptr to, unsigned blocks, unsigned cluster)
{
	Attribute a = {CLUSTER_DIMENSION, 0, {cluster, 1, 1}};
	Config c = {{blocks, 1, 1}, {THREADS, 1, 1}, 0, NULL, &a, 1};
	void *params[] = {&to};
	return cuLaunchKernelEx(&c, f, params, NULL);
}

static void compare(CUdeviceptr p, unsigned cluster)
{
	static unsigned sum[BLOCKS][THREADS];
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(sum, p, sizeof sum));
	for (unsigned b = 0; b < BLOCKS; b++)
		for (unsigned t = 0; t < THREADS; t++) {
			unsigned first = b / cluster * cluster, want = 0;
			for (unsigned i = first; i < first + cluster; i++)
				want += 1000 * i + t;
			if (sum[b][t] != want) {
				fprintf(stderr, "clusters of %u: block %u, thread %u: %u, want %u\n", cluster, b, t, sum[b][t], want);
				exit(1);
			}
		}
}

int main(void)
{
	CUdevice d;
	CUcontext ctx;
	CUmodule m;
	CUfunction f;
	CUdeviceptr p;
	int there, size;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&d, 0));
	CHECK(cuDeviceGetAttribute(&there, (CUdevice_attribute)CLUSTER_LAUNCH, d));
	CHECK(cuCtxCreate(&ctx, 0, d));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&f, m, "sum"));
	Config any = {{BLOCKS, 1, 1}, {THREADS, 1, 1}, 0, NULL, NULL, 0};
	if (!there) {
		EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuOccupancyMaxPotentialClusterSize(&size, f, &any));
		puts("clusters: PASS (the device has no clusters)");
		return 0;
	}
	CHECK(cuMemAlloc(&p, 4 * BLOCKS * THREADS));
	for (unsigned cluster = 1; cluster <= 8; cluster++) {
		if (BLOCKS % cluster)
			continue;
		CHECK(cuMemsetD32(p, 0, BLOCKS * THREADS));
		CHECK(launch(f, p, BLOCKS, cluster));
		compare(p, cluster);
	}
	EXPECT(INVALID_CLUSTER_SIZE, launch(f, p, BLOCKS, 7)); // they do not divide the grid
	EXPECT(INVALID_CLUSTER_SIZE, launch(f, p, BLOCKS, 16));
	CHECK(cuOccupancyMaxPotentialClusterSize(&size, f, &any));
	if (size != 8) {
		fprintf(stderr, "the largest cluster has %d blocks\n", size);
		return 1;
	}
	CHECK(cuFuncSetAttribute(f, NOT_PORTABLE, 1));
	CHECK(launch(f, p, BLOCKS, 16));
	compare(p, 16);
	CHECK(cuCtxDestroy(ctx));
	puts("clusters: PASS");
	return 0;
}
