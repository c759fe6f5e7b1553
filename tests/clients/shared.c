// Fills all shared memory that a block can have, which a kernel has to ask for, and reads it back through
// a sum that depends on every word.
#include "driver.h"

extern CUresult cuFuncSetAttribute(CUfunction, int attribute, int value);
extern CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int threads, size_t dynamic);

enum { THREADS = 128, BLOCKS = 3, PER_BLOCK = 8, OPTIN = 97, MAX_DYNAMIC = 8 };

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n.extern .shared .align 16 .b8 all[];\n"
	".visible .entry fill(.param .b64 to)\n{\n"
	".reg .pred %more;\n.reg .b32 %t, %b, %i, %n, %v, %at, %sum, %k;\n.reg .b64 %to, %off;\n"
	"mov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmov.u32 %n, %dynamic_smem_size;\nshr.u32 %n, %n, 2;\n"
	"mov.u32 %i, %t;\n"
	"write:\nmov.u32 %at, all;\nmad.lo.u32 %at, %i, 4, %at;\nmad.lo.u32 %v, %i, 7, %b;\nst.shared.b32 [%at], %v;\n"
	"add.u32 %i, %i, 128;\nsetp.lt.u32 %more, %i, %n;\n@%more bra write;\n"
	"bar.sync 0;\nmov.u32 %sum, 0;\nsub.u32 %i, 127, %t;\n" // words that another thread wrote
	"read:\nmov.u32 %at, all;\nmad.lo.u32 %at, %i, 4, %at;\nld.shared.b32 %v, [%at];\nadd.u32 %k, %i, 1;\nmad.lo.u32 %sum, %v, %k, %sum;\n"
	"add.u32 %i, %i, 128;\nsetp.lt.u32 %more, %i, %n;\n@%more bra read;\n"
	"ld.param.b64 %to, [to];\nmad.lo.u32 %k, %b, 128, %t;\nmul.wide.u32 %off, %k, 4;\nadd.u64 %to, %to, %off;\nst.global.b32 [%to], %sum;\nret;\n}\n";

static CUresult launch(CUfunction f, CUdeviceptr to, int dynamic)
{
	void *params[] = {&to};
	return cuLaunchKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, (unsigned)dynamic, NULL, params, NULL);
}

static void compare(CUdeviceptr p, int dynamic)
{
	unsigned sum[BLOCKS][THREADS];
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(sum, p, sizeof sum));
	for (unsigned b = 0; b < BLOCKS; b++)
		for (unsigned t = 0; t < THREADS; t++) {
			unsigned want = 0;
			for (unsigned i = THREADS - 1 - t; i < (unsigned)dynamic / 4; i += THREADS)
				want += (7 * i + b) * (i + 1);
			if (sum[b][t] != want) {
				fprintf(stderr, "%d bytes, block %u, thread %u: %u, want %u\n", dynamic, b, t, sum[b][t], want);
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
	int plain, all, fit;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&d, 0));
	CHECK(cuDeviceGetAttribute(&plain, (CUdevice_attribute)PER_BLOCK, d));
	CHECK(cuDeviceGetAttribute(&all, (CUdevice_attribute)OPTIN, d));
	CHECK(cuCtxCreate(&ctx, 0, d));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&f, m, "fill"));
	CHECK(cuMemAlloc(&p, 4 * BLOCKS * THREADS));
	CHECK(launch(f, p, plain));
	compare(p, plain);
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(f, p, plain + 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(f, MAX_DYNAMIC, all + 1));
	CHECK(cuFuncSetAttribute(f, MAX_DYNAMIC, all));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, f, THREADS, (size_t)all));
	if (fit < 1) {
		fprintf(stderr, "%d bytes fit on no multiprocessor\n", all);
		return 1;
	}
	CHECK(launch(f, p, all));
	compare(p, all);
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(f, p, all + 4));
	printf("shared: PASS\n");
	return 0;
}
