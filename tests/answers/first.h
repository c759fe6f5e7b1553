// The questions of the first group, which share one context.
#pragma once
#include "ask.h"

static void contexts(void)
{
	void *ctx, *other;
	unsigned flags = 99;
	int active, config = 99;
	size_t limit = 0;
	ANSWER("primary-flags", CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active), flags);
	ASK("create-with-two-ways-to-wait", CALL(cuCtxCreate_v2, &other, 3, 0));
	MUST(cuCtxCreate_v2, &ctx, 0, 0);
	ANSWER("context-flags", CALL(cuCtxGetFlags, &flags), flags);
	ANSWER("context-version", CALL(cuCtxGetApiVersion, ctx, &flags), flags);
	ANSWER("bank-size", CALL(cuCtxGetSharedMemConfig, &config), config);
	ASK("set-stack", CALL(cuCtxSetLimit, 0, (u64)1000));
	ANSWER("stack", CALL(cuCtxGetLimit, &limit, 0), limit);
	ANSWER("sync-depth", CALL(cuCtxGetLimit, &limit, 3), limit);
	ANSWER("limit-7", CALL(cuCtxGetLimit, &limit, 7), limit);
	ASK("peer-is-self", CALL(cuCtxEnablePeerAccess, ctx, 0));
	ASK("no-peer", CALL(cuCtxDisablePeerAccess, ctx));
	int mode = 2;
	ANSWER("capture-mode", CALL(cuThreadExchangeStreamCaptureMode, &mode), mode);
	ANSWER("capture-mode-restored", CALL(cuThreadExchangeStreamCaptureMode, &mode), mode);
	char id[4];
	ASK("bus-id-in-4-bytes", CALL(cuDeviceGetPCIBusId, id, (int)sizeof id, 0));
	void *f = (void *)1;
	int status = 99;
	ANSWER("no-such-function", CALL(cuGetProcAddress_v2, "cuNoSuchThing", &f, 12000, (u64)0, &status), status);
	printf("no-such-function-is-null %d\n", f == NULL);
}

static void memory(void)
{
	u64 device, base, managed;
	size_t bytes;
	void *pinned, *own = aligned_alloc(4096, 8192);
	unsigned flags;
	unsigned char room[64];
	MUST(cuMemAlloc_v2, &device, (u64)4096);
	MUST(cuMemHostAlloc, &pinned, (u64)4096, 0);
	MUST(cuMemAllocManaged, &managed, (u64)4096, 1);
	ANSWER("pinned-flags", CALL(cuMemHostGetFlags, &flags, pinned), flags);
	ANSWER("range-of-pinned", CALL(cuMemGetAddressRange_v2, &base, &bytes, pinned), bytes);
	ASK("free-null-async", CALL(cuMemFreeAsync, (u64)0, (u64)0));
	ASK("register-pinned", CALL(cuMemHostRegister_v2, pinned, (u64)64, 0));
	ASK("register", CALL(cuMemHostRegister_v2, own, (u64)4096, 0));
	ASK("register-inside", CALL(cuMemHostRegister_v2, (char *)own + 64, (u64)64, 0));
	ASK("register-read-only", CALL(cuMemHostRegister_v2, (char *)own + 4096, (u64)64, 8));
	u64 device_of_own = 0;
	ASK("device-pointer-of-registered", CALL(cuMemHostGetDevicePointer_v2, &device_of_own, own, 0));
	static const int attributes[] = {6, 8, 9, 10, 13, 14, 15, 16, 17, 18, 19, 20, 21};
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		char question[64];
		snprintf(question, sizeof question, "bytes-of-attribute-%d", attributes[i]);
		memset(room, 0x5a, sizeof room);
		int r = CALL(cuPointerGetAttribute, room, attributes[i], device);
		written(question, r, room, sizeof room);
	}
	int kind = 99;
	ANSWER("type-of-registered", CALL(cuPointerGetAttribute, &kind, 2, own), kind);
	int ordinal = 99, type = 99, what[] = {9, 2};
	void *to[] = {&ordinal, &type};
	ANSWER("ordinal-of-strange-memory", CALL(cuPointerGetAttributes, 2, what, to, &ordinal), ordinal);
	ASK("advise-device-7", CALL(cuMemAdvise, managed, (u64)4096, 3, 7));
	ASK("advise-9", CALL(cuMemAdvise, managed, (u64)4096, 9, 0));
	ASK("attach-to-null-stream", CALL(cuStreamAttachMemAsync, (u64)0, managed, (u64)0, 4));
	ASK("attach-3", CALL(cuStreamAttachMemAsync, (u64)0, managed, (u64)0, 3));
}

static void nothing(void *unused) { (void)unused; }

static void streams(void)
{
	void *stream, *event;
	u64 a = 0, b = 0, c = 0;
	MUST(cuStreamCreate, &stream, 0);
	MUST(cuEventCreate, &event, 0);
	ASK("record-external", CALL(cuEventRecordWithFlags, event, stream, 1));
	ASK("wait-external", CALL(cuStreamWaitEvent, stream, event, 1));
	ASK("callback-flags", CALL(cuStreamAddCallback, stream, nothing, NULL, 1));
	ASK("id-of-null", CALL(cuStreamGetId, (u64)NULL_STREAM, &a));
	MUST(cuStreamGetId, (u64)LEGACY, &b);
	MUST(cuStreamGetId, (u64)PER_THREAD, &c);
	printf("null-is-legacy %d\nlegacy-is-per-thread %d\n", a == b, b == c);
	MUST(cuCtxSynchronize);
}

static void kernels(void)
{
	void *module, *kernel, *lib;
	int value = 99;
	MUST(cuModuleLoadData, &module, ptx);
	MUST(cuModuleGetFunction, &kernel, module, "k");
	ANSWER("dynamic-shared", CALL(cuFuncGetAttribute, &value, 8, kernel), value);
	ANSWER("carve-out", CALL(cuFuncGetAttribute, &value, 9, kernel), value);
	ASK("set-dynamic-shared-0", CALL(cuFuncSetAttribute, kernel, 8, 0));
	ANSWER("dynamic-shared-0", CALL(cuFuncGetAttribute, &value, 8, kernel), value);
	ASK("set-carve-out-101", CALL(cuFuncSetAttribute, kernel, 9, 101));
	ASK("set-clusters-not-portable", CALL(cuFuncSetAttribute, kernel, 14, 1));
	ASK("cache-config-4", CALL(cuFuncSetCacheConfig, kernel, 4));
	ANSWER("occupancy-beyond-dynamic-shared", CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, kernel, 64, (u64)64 << 10), value);
	ANSWER("occupancy-flags-2", CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &value, kernel, 64, (u64)0, 2), value);
	ANSWER("occupancy-of-1025-threads", CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, kernel, 1025, (u64)0), value);
	struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned n; } config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 1};
	struct { unsigned id, pad; char value[64]; } attribute = {0};
	config.attributes = &attribute;
	int n = 0;
	void *arguments[] = {&n};
	for (unsigned id = 0; id < 20; id++)
		if (id != 7 && id != 12) { // they need an event
			char question[32];
			attribute.id = id;
			snprintf(question, sizeof question, "launch-attribute-%u", id);
			ASK(question, CALL(cuLaunchKernelEx, &config, kernel, arguments, NULL));
			MUST(cuCtxSynchronize);
		}
	void *ctx;
	MUST(cuLibraryLoadData, &lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
	MUST(cuCtxPopCurrent_v2, &ctx);
	ASK("kernel-without-context", CALL(cuLibraryGetKernel, &kernel, lib, "k"));
	MUST(cuCtxPushCurrent_v2, ctx);
}
