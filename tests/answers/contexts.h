// Two contexts of one device: what one has, in calls with the other one's streams, or while that is current.
#pragma once
#include "ask.h"

static const char stores[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
	"{\n\t.reg .u64 a;\n\tld.param.u64 a, [p];\n\tst.global.u32 [a], 7;\n\tret;\n}\n";

static struct { void *ctx, *stream, *event, *kernel; u64 memory, more; void *host; } one, two;
static void *primary_of_both;

static void of_launches(void)
{
	void *in_two[] = {&two.memory}, *in_one[] = {&one.memory};
	float ms;
	ASK("two-launch-null-stream", CALL(cuLaunchKernel, one.kernel, 1, 1, 1, 1, 1, 1, 0, NULL, in_two, NULL));
	ASK("two-launch-other-stream", CALL(cuLaunchKernel, one.kernel, 1, 1, 1, 1, 1, 1, 0, two.stream, in_two, NULL));
	ASK("two-launch-own-stream", CALL(cuLaunchKernel, one.kernel, 1, 1, 1, 1, 1, 1, 0, one.stream, in_one, NULL));
	ASK("two-record-other-stream", CALL(cuEventRecord, one.event, two.stream));
	ASK("two-record-null-stream", CALL(cuEventRecord, one.event, NULL));
	ASK("two-record-other-event", CALL(cuEventRecord, two.event, one.stream));
	ASK("two-wait-event", CALL(cuStreamWaitEvent, two.stream, one.event, 0));
	ASK("two-wait-event-null-stream", CALL(cuStreamWaitEvent, NULL, one.event, 0));
	ASK("two-synchronize-event", CALL(cuEventSynchronize, one.event));
	ASK("two-synchronize-own-event", CALL(cuEventSynchronize, two.event));
	ASK("two-elapsed", CALL(cuEventElapsedTime, &ms, one.event, two.event));
	ASK("two-query-event", CALL(cuEventQuery, one.event));
}

static void of_copies(void)
{
	u64 a = one.memory, b = two.memory, n = 4096, h = 0;
	ASK("two-copy-async", CALL(cuMemcpyDtoDAsync_v2, b, a, n, two.stream));
	ASK("two-copy-async-other-stream", CALL(cuMemcpyDtoDAsync_v2, b, a, n, one.stream));
	ASK("two-copy", CALL(cuMemcpyDtoD_v2, b, a, n));
	ASK("two-peer", CALL(cuMemcpyPeer, b, two.ctx, a, one.ctx, n));
	ASK("two-peer-swapped", CALL(cuMemcpyPeer, b, one.ctx, a, two.ctx, n));
	ASK("two-peer-to-null", CALL(cuMemcpyPeer, b, NULL, a, one.ctx, n));
	ASK("two-peer-from-null", CALL(cuMemcpyPeer, b, two.ctx, a, NULL, n));
	ASK("two-peer-async", CALL(cuMemcpyPeerAsync, b, two.ctx, a, one.ctx, n, two.stream));
	ASK("two-peer-async-other-stream", CALL(cuMemcpyPeerAsync, b, two.ctx, a, one.ctx, n, one.stream));
	ASK("two-peer-async-wrong-context", CALL(cuMemcpyPeerAsync, b, one.ctx, a, one.ctx, n, one.stream));
	ASK("two-fill-async", CALL(cuMemsetD8Async, a, 1, n, two.stream));
	ASK("two-fill", CALL(cuMemsetD8_v2, a, 1, n));
	ASK("two-fill-async-own", CALL(cuMemsetD8Async, a, 1, n, one.stream));
	ASK("two-fill-async-other-stream", CALL(cuMemsetD8Async, b, 1, n, one.stream));
	ASK("two-copy-to-device-async", CALL(cuMemcpyHtoDAsync_v2, a, one.host, n, two.stream));
	ASK("two-copy-others-pinned", CALL(cuMemcpyHtoDAsync_v2, b, one.host, n, two.stream));
	ASK("two-device-pointer", CALL(cuMemHostGetDevicePointer_v2, &h, one.host, 0));
	printf("two-device-pointer-same %d\n", h == (u64)one.host);
	ASK("two-allocate-async", CALL(cuMemAllocAsync, &b, n, one.stream));
	ASK("two-free-async-other-stream", CALL(cuMemFreeAsync, b, two.stream));
	ASK("two-free", CALL(cuMemFree_v2, a));
}

static void of_peers(void)
{
	int v = -1;
	void *ctx = NULL;
	ASK("two-enable-peer", CALL(cuCtxEnablePeerAccess, one.ctx, 0));
	ASK("two-enable-peer-flags", CALL(cuCtxEnablePeerAccess, one.ctx, 1));
	ASK("two-enable-peer-itself", CALL(cuCtxEnablePeerAccess, two.ctx, 0));
	ASK("two-disable-peer", CALL(cuCtxDisablePeerAccess, one.ctx));
	ASK("two-enable-peer-null", CALL(cuCtxEnablePeerAccess, NULL, 0));
	ASK("two-enable-peer-primary", CALL(cuCtxEnablePeerAccess, primary_of_both, 0));
	ASK("two-synchronize-stream", CALL(cuStreamSynchronize, one.stream));
	ASK("two-query-stream", CALL(cuStreamQuery, two.stream));
	ASK("two-synchronize", CALL(cuCtxSynchronize));
	ASK("two-context-of-stream", CALL(cuStreamGetCtx, one.stream, &ctx));
	printf("two-context-of-stream-right %d\n", ctx == one.ctx);
	ANSWER("two-can-access-itself", CALL(cuDeviceCanAccessPeer, &v, 0, 0), v);
	ASK("two-can-access-1", CALL(cuDeviceCanAccessPeer, &v, 0, 1));
	ASK("two-can-access-to-null", CALL(cuDeviceCanAccessPeer, NULL, 0, 0));
	for (int i = 0; i < 7; i++) {
		char question[32];
		snprintf(question, sizeof question, "two-peer-attribute-%d", i);
		ASK(question, CALL(cuDeviceGetP2PAttribute, &v, i, 0, 0));
	}
	ASK("two-peer-attribute-of-1", CALL(cuDeviceGetP2PAttribute, &v, 1, 0, 1));
}

// a CUDA_MEMCPY3D_PEER
struct box_end { u64 x, y, z, level; unsigned kind, pad; void *host; u64 device; void *array, *ctx; u64 pitch, height; };
struct box { struct box_end src, dst; u64 width, height, depth; };

static void of_boxes(void)
{
	MUST(cuCtxSetCurrent, one.ctx);
	MUST(cuMemAlloc_v2, &one.more, (u64)1 << 20);
	MUST(cuCtxSetCurrent, two.ctx);
	MUST(cuMemAlloc_v2, &two.more, (u64)1 << 20);
	struct box q = {.src = {.kind = 2, .device = one.more, .ctx = one.ctx, .pitch = 256, .height = 4},
		.dst = {.kind = 2, .device = two.more, .ctx = two.ctx, .pitch = 128, .height = 4}, .width = 64, .height = 4, .depth = 2};
	ASK("two-box", CALL(cuMemcpy3DPeer, &q));
	q.src.ctx = NULL;
	ASK("two-box-from-null", CALL(cuMemcpy3DPeer, &q));
	q.src.ctx = one.ctx, q.dst.ctx = NULL;
	ASK("two-box-to-null", CALL(cuMemcpy3DPeer, &q));
	q.dst.ctx = one.ctx;
	ASK("two-box-wrong-context", CALL(cuMemcpy3DPeer, &q));
	q.dst.ctx = two.ctx;
	ASK("two-box-async-other-stream", CALL(cuMemcpy3DPeerAsync, &q, one.stream));
	ASK("two-box-async", CALL(cuMemcpy3DPeerAsync, &q, two.stream));
	q.dst.kind = 1, q.dst.host = one.host;
	ASK("two-box-to-host", CALL(cuMemcpy3DPeer, &q));
	q.dst.ctx = NULL;
	ASK("two-box-to-host-null", CALL(cuMemcpy3DPeer, &q));
	q.width = 0;
	ASK("two-box-empty", CALL(cuMemcpy3DPeer, &q));
	q.width = 300;
	ASK("two-box-wide", CALL(cuMemcpy3DPeer, &q));
	printf("two-box-bytes %zu\n", sizeof q);
	ASK("two-synchronize-at-end", CALL(cuCtxSynchronize));
}

static void contexts_of_one_device(const char *cudart)
{
	(void)cudart;
	void *module;
	MUST(cuInit, 0);
	MUST(cuDevicePrimaryCtxRetain, &primary_of_both, 0);
	MUST(cuCtxCreate_v2, &two.ctx, 0, 0);
	MUST(cuCtxCreate_v2, &one.ctx, 0, 0);
	MUST(cuModuleLoadData, &module, stores);
	MUST(cuModuleGetFunction, &one.kernel, module, "k");
	MUST(cuMemAlloc_v2, &one.memory, (u64)1 << 20);
	MUST(cuStreamCreate, &one.stream, 0);
	MUST(cuEventCreate, &one.event, 0);
	MUST(cuEventRecord, one.event, one.stream);
	MUST(cuMemHostAlloc, &one.host, (u64)4096, 0);
	MUST(cuCtxSetCurrent, two.ctx);
	MUST(cuMemAlloc_v2, &two.memory, (u64)1 << 20);
	MUST(cuStreamCreate, &two.stream, 0);
	MUST(cuEventCreate, &two.event, 0);
	MUST(cuEventRecord, two.event, two.stream);
	of_launches();
	of_copies();
	of_peers();
	of_boxes();
}
