// One process with two devices, whose kernels meet as those of a collective do: each works for a moment, writes a word of
// memory that both reach, and waits for the word of the other. It prints how many times they met until a time, in
// milliseconds, is over. Where there is one device, both are on it.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

static const char ptx[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry meet(.param .u64 p, .param .u32 me, .param .u32 turn, .param .u32 work)\n{\n"
	".reg .pred %q;\n.reg .b32 %me, %turn, %work, %x, %y;\n.reg .b64 %p, %mine, %theirs, %d;\n"
	"ld.param.u64 %p, [p];\nld.param.u32 %me, [me];\nld.param.u32 %turn, [turn];\nld.param.u32 %work, [work];\n"
	"mul.wide.u32 %d, %me, 128;\nadd.s64 %mine, %p, %d;\nxor.b32 %x, %me, 1;\nmul.wide.u32 %d, %x, 128;\nadd.s64 %theirs, %p, %d;\n"
	"mov.u32 %x, 0;\nmov.u32 %y, %me;\n"
	"WORK:\nmad.lo.u32 %y, %y, 1664525, %x;\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %q, %x, %work;\n@%q bra WORK;\n"
	"st.volatile.global.u32 [%mine+4], %y;\nmembar.sys;\nst.volatile.global.u32 [%mine], %turn;\n"
	"WAIT:\nld.volatile.global.u32 %x, [%theirs];\nsetp.lt.u32 %q, %x, %turn;\n@%q bra WAIT;\nret;\n}\n";

enum { PORTABLE = 1, MAPPED = 2 };

struct rank {
	CUcontext ctx;
	CUfunction meet;
	CUdeviceptr there;
};

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct rank r[2];
	unsigned *words;
	int devices;
	long length = argc > 1 ? atol(argv[1]) : 200;
	unsigned work = argc > 2 ? (unsigned)atol(argv[2]) : 20000;
	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&devices));
	for (int i = 0; i < 2; i++) {
		CUdevice d;
		CUmodule m;
		CHECK(cuDeviceGet(&d, i % devices));
		CHECK(cuCtxCreate(&r[i].ctx, 0, d));
		CHECK(cuModuleLoadData(&m, ptx));
		CHECK(cuModuleGetFunction(&r[i].meet, m, "meet"));
		if (i == 0) {
			CHECK(cuMemHostAlloc((void **)&words, 4096, PORTABLE | MAPPED));
			memset(words, 0, 4096);
		}
		CHECK(cuMemHostGetDevicePointer(&r[i].there, words, 0));
	}
	unsigned turn = 0;
	for (long end = now() + length; now() < end;) {
		turn++;
		for (unsigned i = 0; i < 2; i++) {
			void *args[] = {&r[i].there, &i, &turn, &work};
			CHECK(cuCtxSetCurrent(r[i].ctx));
			CHECK(cuLaunchKernel(r[i].meet, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
		}
		for (int i = 0; i < 2; i++) {
			CHECK(cuCtxSetCurrent(r[i].ctx));
			CHECK(cuCtxSynchronize());
		}
		REQUIRE(words[0] == turn && words[32] == turn);
	}
	printf("met %u times\nranks: PASS\n", turn);
	return 0;
}
