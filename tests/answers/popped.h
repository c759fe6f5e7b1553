// Questions about objects whose context is not current, and about primary contexts that were reset.
#pragma once
#include "ask.h"

// What a context has.
struct things { u64 memory, pooled, global; void *host, *stream, *event, *module, *f; };

static struct things things(void)
{
	static const char with_global[] = HEADER ".global .u32 g;\n.visible .entry k(.param .u32 n)\n{\n\tret;\n}\n";
	struct things t = {0};
	u64 n;
	MUST(cuMemAlloc_v2, &t.memory, (u64)64);
	MUST(cuMemAllocHost_v2, &t.host, (u64)64);
	MUST(cuStreamCreate, &t.stream, 0);
	MUST(cuEventCreate, &t.event, 0);
	MUST(cuModuleLoadData, &t.module, with_global);
	MUST(cuModuleGetFunction, &t.f, t.module, "k");
	MUST(cuModuleGetGlobal_v2, &t.global, &n, t.module, "g");
	MUST(cuMemAllocAsync, &t.pooled, (u64)64, t.stream);
	return t;
}

// use asks what can be done with things, and then ends them.
static void use(const char *when, struct things t)
{
	char question[80];
	u64 base = 0, n = 0;
	int type = 0, value = 0;
	void *f, *params[] = {&value};
#define USE(what, answer) (snprintf(question, sizeof question, "%s-%s", when, what), ASK(question, answer))
	USE("memset", CALL(cuMemsetD32_v2, t.memory, 0, (u64)1));
	USE("memset-async", CALL(cuMemsetD32Async, t.memory, 0, (u64)1, t.stream));
	USE("copy-down", CALL(cuMemcpyDtoH_v2, &value, t.memory, (u64)4));
	USE("copy-down-async", CALL(cuMemcpyDtoHAsync_v2, t.host, t.memory, (u64)4, t.stream));
	USE("range", CALL(cuMemGetAddressRange_v2, &base, &n, t.memory));
	USE("pointer-type", CALL(cuPointerGetAttribute, &type, 2, t.memory));
	USE("function", CALL(cuModuleGetFunction, &f, t.module, "k"));
	USE("global", CALL(cuModuleGetGlobal_v2, &base, &n, t.module, "g"));
	USE("function-attribute", CALL(cuFuncGetAttribute, &value, 0, t.f));
	USE("launch", CALL(cuLaunchKernel, t.f, 1, 1, 1, 1, 1, 1, 0, t.stream, params, NULL));
	USE("record", CALL(cuEventRecord, t.event, t.stream));
	USE("wait", CALL(cuStreamWaitEvent, t.stream, t.event, 0));
	USE("query", CALL(cuStreamQuery, t.stream) == 600 ? 0 : CALL(cuStreamQuery, t.stream));
	USE("synchronize", CALL(cuStreamSynchronize, t.stream));
	USE("event-synchronize", CALL(cuEventSynchronize, t.event));
	USE("free-async", CALL(cuMemFreeAsync, t.pooled, t.stream));
	USE("alloc-async", CALL(cuMemAllocAsync, &base, (u64)64, t.stream));
	USE("event-destroy", CALL(cuEventDestroy_v2, t.event));
	USE("stream-destroy", CALL(cuStreamDestroy_v2, t.stream));
	USE("free", CALL(cuMemFree_v2, t.memory));
	USE("free-host", CALL(cuMemFreeHost, t.host));
	USE("unload", CALL(cuModuleUnload, t.module));
#undef USE
}

static void popped(const char *unused)
{
	(void)unused;
	void *ctx = a_context(), *other;
	struct things t = things();
	MUST(cuCtxSetCurrent, NULL);
	use("without-current", t);
	MUST(cuCtxSetCurrent, ctx);
	t = things();
	MUST(cuCtxCreate_v2, &other, 0, 0);
	use("with-other-current", t);
}

static void primary(const char *unused)
{
	(void)unused;
	void *a = NULL, *b = NULL, *now = NULL;
	u64 p = 0;
	unsigned flags = 0;
	int active = 0;
	MUST(cuInit, 0);
	MUST(cuDevicePrimaryCtxRetain, &a, 0);
	MUST(cuCtxSetCurrent, a);
	struct things t = things();
	MUST(cuMemAlloc_v2, &p, (u64)64);
	ASK("primary-reset", CALL(cuDevicePrimaryCtxReset_v2, 0));
	ANSWER("primary-current-after-reset", CALL(cuCtxGetCurrent, &now), now == a);
	ANSWER("primary-active-after-reset", CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active), active);
	ASK("primary-alloc-after-reset", CALL(cuMemAlloc_v2, &p, (u64)64));
	ASK("primary-synchronize-after-reset", CALL(cuCtxSynchronize));
	ASK("primary-device-after-reset", CALL(cuCtxGetDevice, &active));
	ASK("primary-set-after-reset", CALL(cuCtxSetCurrent, a));
	use("reset", t);
	ANSWER("primary-retain-again", CALL(cuDevicePrimaryCtxRetain, &b, 0), b == a);
	ASK("primary-alloc-after-retain", CALL(cuMemAlloc_v2, &p, (u64)64));
	ASK("primary-set-old", CALL(cuCtxSetCurrent, a));
	ASK("primary-alloc-by-old", CALL(cuMemAlloc_v2, &p, (u64)64));
	ASK("primary-set-new", CALL(cuCtxSetCurrent, b));
	ASK("primary-alloc-by-new", CALL(cuMemAlloc_v2, &p, (u64)64));
	ASK("primary-release", CALL(cuDevicePrimaryCtxRelease_v2, 0));
	ASK("primary-release-second", CALL(cuDevicePrimaryCtxRelease_v2, 0));
	ASK("primary-release-third", CALL(cuDevicePrimaryCtxRelease_v2, 0));
	ASK("primary-alloc-after-release", CALL(cuMemAlloc_v2, &p, (u64)64));
	ANSWER("primary-retain-after-release", CALL(cuDevicePrimaryCtxRetain, &b, 0), b == a);
	ASK("primary-alloc-after-both", CALL(cuMemAlloc_v2, &p, (u64)64));
}
