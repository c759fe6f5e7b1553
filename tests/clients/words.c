// Stream memory operations: streams write words and wait for words, in memory of the program and of the device, and other streams
// go on meanwhile.
#define _GNU_SOURCE
#include <time.h>

#include "driver.h"

enum { GEQ, EQ, AND, NOR, ROUNDS = 200, HOST = 4096, PORTABLE = 1, MAPPED = 2, WAIT32 = 1, WRITE32, WAIT64 = 4, WRITE64, BARRIER };

#ifndef USE_CUDA_H
typedef union {
	unsigned operation;
	struct { unsigned operation; CUdeviceptr address; unsigned long long value; unsigned flags; CUdeviceptr alias; } word;
	unsigned long long pad[6];
} CUstreamBatchMemOpParams;
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, unsigned, unsigned);
CUresult cuStreamWaitValue64_v2(CUstream, CUdeviceptr, unsigned long long, unsigned);
CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr, unsigned, unsigned);
CUresult cuStreamWriteValue64_v2(CUstream, CUdeviceptr, unsigned long long, unsigned);
CUresult cuStreamBatchMemOp_v2(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
#endif

static CUstream stream[2];

// One stream after the other, by words alone.
static void turns(CUdeviceptr words)
{
	struct timespec a, b;
	CHECK(cuMemsetD32(words, 0, 4));
	CHECK(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		CHECK(cuStreamWaitValue32_v2(stream[0], words, i - 1, GEQ));
		CHECK(cuMemsetD32Async(words + 64, i, 1, stream[0]));
		CHECK(cuStreamWriteValue32_v2(stream[0], words + 8, i, 0));
		CHECK(cuStreamWaitValue32_v2(stream[1], words + 8, i, EQ));
		CHECK(cuStreamWriteValue32_v2(stream[1], words, i, 0));
	}
	for (int i = 0; i < 2; i++)
		CHECK(cuStreamSynchronize(stream[i]));
	clock_gettime(CLOCK_MONOTONIC, &b);
	fprintf(stderr, "%d turns in %.2f ms\n", ROUNDS, (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6);
}

static void conditions(volatile unsigned *host, CUdeviceptr at, CUdeviceptr wide)
{
	static const struct { unsigned how, first, value, then; } rows[] = {
		{GEQ, 0x7ffffff0, 0x7fffffff, 0x80000003}, {EQ, 1, 2, 2}, {AND, 0xf0, 0x0f, 0x18}, {NOR, 0xffff0000, 0x0000ffff, 0xfffe0000},
	};
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		host[0] = rows[i].first;
		CHECK(cuStreamWaitValue32_v2(stream[0], at, rows[i].value, rows[i].how));
		CHECK(cuStreamWriteValue32_v2(stream[0], at + 64, i + 1, 0));
		CHECK(cuStreamWriteValue32_v2(stream[1], at + 128, i + 1, 0)); // the other stream is not held up
		CHECK(cuStreamSynchronize(stream[1]));
		REQUIRE(host[32] == i + 1 && host[16] == i);
		EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream[0]));
		host[0] = rows[i].then;
		CHECK(cuStreamSynchronize(stream[0]));
		REQUIRE(host[16] == i + 1);
	}
	// 64 bits, on the device, all in one call.
	CUstreamBatchMemOpParams ops[4];
	memset(ops, 0, sizeof ops);
#ifdef USE_CUDA_H
#define OP(i, op, at, v, how) (ops[i].waitValue.operation = op, ops[i].waitValue.address = at, ops[i].waitValue.value64 = v, ops[i].waitValue.flags = how)
#else
#define OP(i, op, at, v, how) (ops[i].word.operation = op, ops[i].word.address = at, ops[i].word.value = v, ops[i].word.flags = how)
#endif
	CHECK(cuMemsetD32(wide, 0, 4));
	CHECK(cuCtxSynchronize()); // the streams do not wait for it
	OP(0, WAIT64, wide, 1ull << 40, EQ);
	OP(1, WRITE64, wide + 8, 5ull << 33, 0);
	ops[2].operation = BARRIER;
	OP(3, WRITE32, at + 64, 99, 0);
	CHECK(cuStreamBatchMemOp_v2(stream[0], 4, ops, 0));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream[0]));
	CHECK(cuStreamWriteValue64_v2(stream[1], wide, 1ull << 40, 0));
	CHECK(cuStreamSynchronize(stream[0]));
	unsigned long long got;
	CHECK(cuMemcpyDtoH(&got, wide + 8, 8));
	REQUIRE(got == 5ull << 33 && host[16] == 99);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr at, vram;
	int can;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuDeviceGetAttribute(&can, (CUdevice_attribute)122, dev)); // 64-bit operations
	unsigned *host = aligned_alloc(HOST, HOST);
	REQUIRE(host);
	memset(host, 0, HOST);
	CHECK(cuMemHostRegister(host, HOST, PORTABLE | MAPPED));
	CHECK(cuMemHostGetDevicePointer(&at, host, 0));
	CHECK(cuMemAlloc(&vram, 1 << 20));
	for (int i = 0; i < 2; i++)
		CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	REQUIRE(can);
	conditions(host, at, vram + 4096);
	turns(vram);
	turns(at + 1024);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream[0], vram + 2, 0, EQ));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream[0], vram, 0, 7));
	for (int i = 0; i < 2; i++)
		CHECK(cuStreamDestroy(stream[i]));
	CHECK(cuMemFree(vram));
	CHECK(cuCtxDestroy(ctx));
	puts("words: PASS");
	return 0;
}
