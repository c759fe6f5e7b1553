// Contexts, memory, streams and events of the driver API, each with wrong arguments.
#pragma once
#include "ask.h"

// in_host_function asks what a function of the program that a stream calls may do.
static int of_host_function[3];

static void in_host_function(void *unused)
{
	(void)unused;
	u64 p;
	size_t bytes;
	of_host_function[0] = CALL(cuMemAlloc_v2, &p, (u64)64);
	of_host_function[1] = CALL(cuStreamQuery, NULL);
	of_host_function[2] = CALL(cuMemGetInfo_v2, &bytes, &bytes);
}

// libraries_without_context asks what a library of kernels may do before there is a context.
static void libraries_without_context(void)
{
	void *lib, *kernel = NULL, *x;
	int value = 99;
	u64 address;
	size_t bytes;
	MUST(cuLibraryLoadData, &lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
	ASK("library-without-context-kernel", CALL(cuLibraryGetKernel, &kernel, lib, "k"));
	ASK("library-without-context-missing", CALL(cuLibraryGetKernel, &x, lib, "nothing"));
	ASK("library-without-context-global", CALL(cuLibraryGetGlobal, &address, &bytes, lib, "nothing"));
	ASK("library-without-context-module", CALL(cuLibraryGetModule, &x, lib));
	if (kernel) {
		ASK("kernel-without-context-attribute", CALL(cuKernelGetAttribute, &value, 0, kernel, 0));
		ASK("kernel-without-context-set-attribute", CALL(cuKernelSetAttribute, 8, 1024, kernel, 0));
		ASK("kernel-without-context-function", CALL(cuKernelGetFunction, &x, kernel));
		ASK("kernel-without-context-parameter", CALL(cuKernelGetParamInfo, kernel, (u64)0, &bytes, &bytes));
		ASK("kernel-without-context-launch", CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
	MUST(cuLibraryUnload, lib);
}

static void without_context(const char *unused)
{
	(void)unused;
	int value = 99, status = 99;
	const char *text = "";
	void *f, *event, *ctx = NULL;
	u64 p = 0;
	char name[4], id[16];
	size_t bytes;
	ASK("device-before-init", CALL(cuDeviceGet, &value, 0));
	ASK("version-before-init", CALL(cuDriverGetVersion, &value));
	ASK("error-before-init", CALL(cuGetErrorString, 1, &text));
	ASK("init-1", CALL(cuInit, 1));
	MUST(cuInit, 0);
	ASK("error-9999", CALL(cuGetErrorName, 9999, &text));
	printf("error-9999-is-null %d\n", text == NULL);
	ASK("device-minus-1", CALL(cuDeviceGet, &value, -1));
	ASK("name-in-4-bytes", CALL(cuDeviceGetName, name, 4, 0));
	ASK("name-in-0-bytes", CALL(cuDeviceGetName, name, 0, 0));
	ASK("bus-id-of-nothing", CALL(cuDeviceGetByPCIBusId, &value, "nonsense"));
	ASK("bus-id-of-another", CALL(cuDeviceGetByPCIBusId, &value, "0000:7f:1f.0"));
	ANSWER("can-be-its-own-peer", CALL(cuDeviceCanAccessPeer, &value, 0, 0), value);
	ASK("peer-attribute-of-itself", CALL(cuDeviceGetP2PAttribute, &value, 1, 0, 0));
	ANSWER("register-supported", CALL(cuDeviceGetAttribute, &value, 99, 0), value);
	ANSWER("register-read-only-supported", CALL(cuDeviceGetAttribute, &value, 113, 0), value);
	ASK("bus-id-in-12-bytes", CALL(cuDeviceGetPCIBusId, id, 12, 0));
	ASK("bus-id-in-13-bytes", CALL(cuDeviceGetPCIBusId, id, 13, 0));
	ASK("attribute-0", CALL(cuDeviceGetAttribute, &value, 0, 0));
	ASK("attribute-9999", CALL(cuDeviceGetAttribute, &value, 9999, 0));
	ASK("pop-nothing", CALL(cuCtxPopCurrent_v2, &ctx));
	ASK("banks-without-context", CALL(cuCtxGetSharedMemConfig, &value));
	ASK("set-no-context", CALL(cuCtxSetCurrent, NULL));
	ASK("push-no-context", CALL(cuCtxPushCurrent_v2, NULL));
	ASK("destroy-no-context", CALL(cuCtxDestroy_v2, NULL));
	ASK("device-of-no-context", CALL(cuCtxGetDevice, &value));
	ASK("synchronize-no-context", CALL(cuCtxSynchronize));
	ASK("allocate-without-context", CALL(cuMemAlloc_v2, &p, (u64)64));
	ASK("free-null-without-context", CALL(cuMemFree_v2, (u64)0));
	ASK("info-without-context", CALL(cuMemGetInfo_v2, &bytes, &bytes));
	ASK("event-without-context", CALL(cuEventCreate, &event, 0));
	ASK("module-without-context", CALL(cuModuleLoadData, &f, ptx));
	ASK("pointer-without-context", CALL(cuPointerGetAttribute, &value, 2, (u64)(uintptr_t)name));
	ASK("release-primary-not-retained", CALL(cuDevicePrimaryCtxRelease_v2, 0));
	ASK("reset-primary-not-retained", CALL(cuDevicePrimaryCtxReset_v2, 0));
	ASK("procedure-with-flags-3", CALL(cuGetProcAddress_v2, "cuInit", &f, 12000, (u64)3, &status));
	ASK("procedure-with-flags-4", CALL(cuGetProcAddress_v2, "cuInit", &f, 12000, (u64)4, &status));
	ASK("procedure-of-null", CALL(cuGetProcAddress_v2, NULL, &f, 12000, (u64)0, &status));
	ASK("procedure-without-status", CALL(cuGetProcAddress_v2, "cuNoSuchThing", &f, 12000, (u64)0, NULL));
	ASK("procedure-v1", CALL(cuGetProcAddress, "cuNoSuchThing", &f, 12000, (u64)0));
	f = &value, status = 99;
	ANSWER("procedure-too-new", CALL(cuGetProcAddress_v2, "cuMemAllocAsync", &f, 9000, (u64)0, &status), status);
	printf("procedure-too-new-is-null %d\n", f == NULL);
	ANSWER("procedure-of-99990", CALL(cuGetProcAddress_v2, "cuInit", &f, 99990, (u64)0, &status), status);
	libraries_without_context();
	MUST(cuCtxCreate_v2, &ctx, 0, 0);
	ASK("set-banks-2", CALL(cuCtxSetSharedMemConfig, 2));
	ANSWER("banks-set", CALL(cuCtxGetSharedMemConfig, &value), value);
	ASK("set-cache-1", CALL(cuCtxSetCacheConfig, 1));
	ANSWER("cache-set", CALL(cuCtxGetCacheConfig, &value), value);
	static const int settings[][2] = {{0, 1 << 30}, {1, 1000}, {2, 1000}, {3, 3}, {4, 100}, {5, 100}, {6, 1000}, {7, 1024}, {8, 1}, {9, 1}, {10, 1}, {99, 1}};
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		char question[32];
		snprintf(question, sizeof question, "limit-%d-default", settings[i][0]);
		ANSWER(question, CALL(cuCtxGetLimit, &bytes, settings[i][0]), bytes);
		snprintf(question, sizeof question, "set-limit-%d", settings[i][0]);
		ASK(question, CALL(cuCtxSetLimit, settings[i][0], (u64)settings[i][1]));
		snprintf(question, sizeof question, "limit-%d-set", settings[i][0]);
		ANSWER(question, CALL(cuCtxGetLimit, &bytes, settings[i][0]), bytes);
	}
	MUST(cuCtxDestroy_v2, ctx);
	ASK("destroy-context-twice", CALL(cuCtxDestroy_v2, ctx));
}

static void copies(const char *unused)
{
	(void)unused;
	enum { N = 4096 };
	static char host[2 * N], other[2 * N];
	u64 a, b, own = (u64)(uintptr_t)host;
	void *pinned;
	size_t before, after, total, pitch;
	a_context();
	MUST(cuMemAlloc_v2, &a, (u64)N);
	MUST(cuMemAlloc_v2, &b, (u64)N);
	MUST(cuMemHostAlloc, &pinned, (u64)N, 0);
	printf("alignment %d\n", (int)(a & 511));
	ASK("copy-nothing", CALL(cuMemcpyHtoD_v2, a, host, (u64)0));
	ASK("copy-nothing-to-null", CALL(cuMemcpyHtoD_v2, (u64)0, NULL, (u64)0));
	ASK("copy-to-null", CALL(cuMemcpyHtoD_v2, (u64)0, host, (u64)64));
	ASK("copy-from-null", CALL(cuMemcpyHtoD_v2, a, NULL, (u64)64));
	ASK("copy-beyond", CALL(cuMemcpyDtoH_v2, host, a, (u64)N + 1));
	ASK("copy-overlapping", CALL(cuMemcpyDtoD_v2, a + 16, a, (u64)64));
	ASK("copy-host-to-device-as-devices", CALL(cuMemcpyDtoD_v2, a, own, (u64)64));
	ASK("copy-pinned-as-device", CALL(cuMemcpyDtoD_v2, a, pinned, (u64)64));
	ASK("copy-device-as-host", CALL(cuMemcpyHtoD_v2, a, b, (u64)64));
	ASK("copy-by-address", CALL(cuMemcpy, a, own, (u64)64));
	ASK("copy-by-address-in-host", CALL(cuMemcpy, (u64)(uintptr_t)other, own, (u64)64));
	ASK("set-odd-16", CALL(cuMemsetD16_v2, a + 1, 0, (u64)4));
	ASK("set-odd-32", CALL(cuMemsetD32_v2, a + 2, 0, (u64)4));
	ASK("set-nothing", CALL(cuMemsetD8_v2, a, 0, (u64)0));
	ASK("set-nothing-at-null", CALL(cuMemsetD8_v2, (u64)0, 0, (u64)0));
	ASK("set-beyond", CALL(cuMemsetD8_v2, a, 0, (u64)N + 1));
	ASK("set-host", CALL(cuMemsetD8_v2, own, 0, (u64)64));
	ASK("set-pinned", CALL(cuMemsetD8_v2, pinned, 0, (u64)64));
	ASK("set-rows-with-pitch-5", CALL(cuMemsetD2D32_v2, a, (u64)5, 0, (u64)1, (u64)2));
	ASK("set-rows-beyond-pitch", CALL(cuMemsetD2D8_v2, a, (u64)16, 0, (u64)17, (u64)2));
	ASK("allocate-nothing", CALL(cuMemAlloc_v2, &own, (u64)0));
	ASK("allocate-all", CALL(cuMemAlloc_v2, &own, (u64)1 << 50));
	ASK("allocate-pinned-nothing", CALL(cuMemHostAlloc, &own, (u64)0, 0));
	ASK("allocate-pinned-flags-8", CALL(cuMemHostAlloc, &own, (u64)64, 8));
	ASK("allocate-managed-nothing", CALL(cuMemAllocManaged, &own, (u64)0, 1));
	ASK("allocate-managed-flags-0", CALL(cuMemAllocManaged, &own, (u64)64, 0));
	ASK("allocate-rows-of-3", CALL(cuMemAllocPitch_v2, &own, &pitch, (u64)100, (u64)2, 3));
	ANSWER("pitch", CALL(cuMemAllocPitch_v2, &own, &pitch, (u64)100, (u64)2, 4), pitch);
	ASK("free-inside", CALL(cuMemFree_v2, a + 16));
	ASK("free-host", CALL(cuMemFree_v2, host));
	ASK("free-pinned-as-device", CALL(cuMemFree_v2, pinned));
	ASK("free-device-as-pinned", CALL(cuMemFreeHost, a));
	ASK("free-host-as-pinned", CALL(cuMemFreeHost, host));
	ASK("free-pinned-null", CALL(cuMemFreeHost, NULL));
	ASK("unregister-pinned", CALL(cuMemHostUnregister, pinned));
	ASK("unregister-nothing", CALL(cuMemHostUnregister, host));
	ASK("register-nothing", CALL(cuMemHostRegister_v2, host, (u64)0, 0));
	ASK("register-null", CALL(cuMemHostRegister_v2, NULL, (u64)64, 0));
	ASK("flags-of-host", CALL(cuMemHostGetFlags, &before, host));
	ASK("device-pointer-of-host", CALL(cuMemHostGetDevicePointer_v2, &own, host, 0));
	ASK("device-pointer-flags-1", CALL(cuMemHostGetDevicePointer_v2, &own, pinned, 1));
	MUST(cuMemFree_v2, b);
	ASK("free-twice", CALL(cuMemFree_v2, b));
	ASK("copy-freed", CALL(cuMemcpyDtoH_v2, host, b, (u64)64));
	int kind = 99;
	ASK("type-of-freed", CALL(cuPointerGetAttribute, &kind, 2, b));
	ASK("attribute-99-of-memory", CALL(cuPointerGetAttribute, &kind, 99, a));
	ASK("range-of-freed", CALL(cuMemGetAddressRange_v2, &own, &pitch, b));
	ASK("range-of-host", CALL(cuMemGetAddressRange_v2, &own, &pitch, host));
	MUST(cuMemGetInfo_v2, &before, &total);
	MUST(cuMemAlloc_v2, &b, (u64)64 << 20);
	MUST(cuMemGetInfo_v2, &after, &total);
	printf("megabytes-of-64 %d\n", (int)((before - after) >> 20));
}

static void pools(const char *unused)
{
	(void)unused;
	void *pool = NULL, *stream;
	u64 p = 0, q = 0, value = 99, type = 0;
	int managed = 99;
	a_context();
	MUST(cuStreamCreate, &stream, 0);
	ANSWER("pools-supported", CALL(cuDeviceGetAttribute, &managed, 115, 0), managed);
	ASK("default-pool", CALL(cuDeviceGetDefaultMemPool, &pool, 0));
	if (pool) {
		ANSWER("pool-threshold", CALL(cuMemPoolGetAttribute, pool, 4, &value), value);
		ASK("pool-attribute-99", CALL(cuMemPoolGetAttribute, pool, 99, &value));
		ASK("pool-trim", CALL(cuMemPoolTrimTo, pool, (u64)0));
		ASK("pool-destroy-default", CALL(cuMemPoolDestroy, pool));
	}
	ASK("async-nothing", CALL(cuMemAllocAsync, &p, (u64)0, stream));
	ASK("async-all", CALL(cuMemAllocAsync, &p, (u64)1 << 50, stream));
	ASK("async", CALL(cuMemAllocAsync, &p, (u64)4096, stream));
	ANSWER("async-type", CALL(cuPointerGetAttribute, &type, 2, p), type);
	ASK("async-free", CALL(cuMemFreeAsync, p, stream));
	ASK("async-free-twice", CALL(cuMemFreeAsync, p, stream));
	MUST(cuMemAllocAsync, &p, (u64)4096, stream);
	ASK("async-freed-at-once", CALL(cuMemFree_v2, p));
	MUST(cuMemAlloc_v2, &q, (u64)4096);
	ASK("free-async-of-others", CALL(cuMemFreeAsync, q, stream));
	ASK("free-async-of-host", CALL(cuMemFreeAsync, &q, stream));
}

static void events(const char *unused)
{
	(void)unused;
	void *a, *b, *untimed, *stream;
	float ms;
	int least = 99, greatest = 99, priority = 99;
	unsigned flags = 99;
	a_context();
	MUST(cuEventCreate, &a, 0);
	MUST(cuEventCreate, &b, 0);
	MUST(cuEventCreate, &untimed, 2);
	MUST(cuStreamCreate, &stream, 1);
	ASK("event-query-before-record", CALL(cuEventQuery, a));
	ASK("event-wait-before-record", CALL(cuEventSynchronize, a));
	ASK("stream-wait-before-record", CALL(cuStreamWaitEvent, stream, a, 0));
	ASK("elapsed-before-record", CALL(cuEventElapsedTime, &ms, a, b));
	MUST(cuEventRecord, a, stream);
	MUST(cuEventRecord, untimed, stream);
	MUST(cuStreamSynchronize, stream);
	ASK("elapsed-half-recorded", CALL(cuEventElapsedTime, &ms, a, b));
	ASK("elapsed-untimed", CALL(cuEventElapsedTime, &ms, a, untimed));
	ASK("elapsed-of-one", CALL(cuEventElapsedTime, &ms, a, a));
	ASK("elapsed-to-null", CALL(cuEventElapsedTime, NULL, a, a));
	ASK("record-flags-2", CALL(cuEventRecordWithFlags, a, stream, 2));
	ASK("wait-flags-2", CALL(cuStreamWaitEvent, stream, a, 2));
	ASK("event-flags-4", CALL(cuEventCreate, &b, 4));
	ASK("event-flags-6", CALL(cuEventCreate, &b, 6));
	ASK("event-flags-8", CALL(cuEventCreate, &b, 8));
	ASK("stream-flags-2", CALL(cuStreamCreate, &b, 2));
	ASK("priorities", CALL(cuCtxGetStreamPriorityRange, &least, &greatest));
	printf("least-priority %d\n", least);
	printf("greatest-priority %d\n", greatest);
	ASK("stream-priority-7", CALL(cuStreamCreateWithPriority, &b, 0, 7));
	ANSWER("priority-7", CALL(cuStreamGetPriority, b, &priority), priority);
	ASK("stream-priority-minus-99", CALL(cuStreamCreateWithPriority, &b, 0, -99));
	ANSWER("priority-minus-99", CALL(cuStreamGetPriority, b, &priority), priority);
	ANSWER("flags-of-null-stream", CALL(cuStreamGetFlags, NULL, &flags), flags);
	ANSWER("flags-of-per-thread", CALL(cuStreamGetFlags, (u64)PER_THREAD, &flags), flags);
	ANSWER("flags-of-legacy", CALL(cuStreamGetFlags, (u64)LEGACY, &flags), flags);
	ASK("event-query-null", CALL(cuEventQuery, NULL));
	ASK("event-destroy-null", CALL(cuEventDestroy_v2, NULL));
	ASK("record-null-event", CALL(cuEventRecord, NULL, stream));
	ASK("wait-null-event", CALL(cuStreamWaitEvent, stream, NULL, 0));
	ASK("stream-destroy-null", CALL(cuStreamDestroy_v2, NULL));
	ASK("stream-destroy-legacy", CALL(cuStreamDestroy_v2, (u64)LEGACY));
	MUST(cuLaunchHostFunc, stream, in_host_function, NULL);
	MUST(cuStreamSynchronize, stream);
	printf("allocate-in-host-function %d\nquery-in-host-function %d\ninfo-in-host-function %d\n", of_host_function[0], of_host_function[1], of_host_function[2]);
	ASK("host-function-null", CALL(cuLaunchHostFunc, stream, NULL, NULL));
}
