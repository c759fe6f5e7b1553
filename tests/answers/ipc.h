// Memory and events of another process. The two take turns, so that their answers come in one order.
#pragma once
#include "ask.h"

struct handle { unsigned char bytes[64]; };
typedef int open_memory(u64 *, struct handle, unsigned);
typedef int open_event(void **, struct handle);

static int toChild[2], toParent[2];

static void give(int fd, const void *p, size_t n) { if (write(fd, p, n) != (ssize_t)n) _exit(9); }
static void take(int fd, void *p, size_t n) { if (read(fd, p, n) != (ssize_t)n) _exit(8); }
static int open_mem(struct handle h, unsigned flags, u64 *p) { return ((open_memory *)find("cuIpcOpenMemHandle_v2"))(p, h, flags); }
static int open_ev(struct handle h, void **e) { return ((open_event *)find("cuIpcOpenEventHandle"))(e, h); }

struct message { struct handle mem, interior, ev, gone, pool; };

static void ipc_child(void)
{
	struct message m;
	u64 p = 0, q = 0, r = 0, base = 0;
	size_t n = 0;
	void *e = NULL, *e2, *s, *ctx;
	int v = 0, value[4] = {0};
	char c = 0;
	take(toChild[0], &m, sizeof m);
	ASK("ipc-child-open-before-init", open_mem(m.mem, 1, &p));
	ASK("ipc-child-init", CALL(cuInit, 0));
	ASK("ipc-child-open-without-context", open_mem(m.mem, 1, &p));
	MUST(cuCtxCreate_v2, &ctx, 0, 0);
	MUST(cuStreamCreate, &s, 1);
	ASK("ipc-child-open-flags-0", open_mem(m.mem, 0, &p));
	if (p) { ASK("ipc-child-close-flags-0", CALL(cuIpcCloseMemHandle, p)); p = 0; }
	ASK("ipc-child-open-flags-2", open_mem(m.mem, 2, &p));
	ASK("ipc-child-open-flags-3", open_mem(m.mem, 3, &p));
	ASK("ipc-child-open-null", open_mem(m.mem, 1, NULL));
	ASK("ipc-child-open", open_mem(m.mem, 1, &p));
	ASK("ipc-child-open-again", open_mem(m.mem, 1, &q));
	printf("ipc-child-open-again-same %d\n", p == q);
	ASK("ipc-child-open-interior", open_mem(m.interior, 1, &r));
	printf("ipc-child-open-interior-offset %lld\n", (long long)(r - p));
	if (r) ASK("ipc-child-close-interior-opened", CALL(cuIpcCloseMemHandle, r));
	ANSWER("ipc-child-range", CALL(cuMemGetAddressRange_v2, &base, &n, p), n);
	printf("ipc-child-range-base %lld\n", (long long)(p - base));
	ANSWER("ipc-child-type", CALL(cuPointerGetAttribute, &v, 2, p), v);
	ANSWER("ipc-child-legacy-ipc-capable", CALL(cuPointerGetAttribute, &v, 10, p), v);
	ANSWER("ipc-child-range-size", CALL(cuPointerGetAttribute, &n, 12, p), n);
	ANSWER("ipc-child-read", CALL(cuMemcpyDtoH_v2, value, p, (u64)16), value[0]);
	ASK("ipc-child-write", CALL(cuMemsetD32_v2, p, 77, (u64)4));
	ASK("ipc-child-free", CALL(cuMemFree_v2, p));
	ASK("ipc-child-free-async", CALL(cuMemFreeAsync, p, s));
	struct handle h;
	ASK("ipc-child-get-handle-of-opened", CALL(cuIpcGetMemHandle, &h, p));
	ASK("ipc-child-close-inside", CALL(cuIpcCloseMemHandle, p + 16));
	ASK("ipc-child-close", CALL(cuIpcCloseMemHandle, p));
	ANSWER("ipc-child-read-after-one-close", CALL(cuMemcpyDtoH_v2, value, p, (u64)16), value[0]);
	ASK("ipc-child-close-second", CALL(cuIpcCloseMemHandle, p));
	ANSWER("ipc-child-read-after-two-closes", CALL(cuMemcpyDtoH_v2, value, p, (u64)16), value[0]);
	ASK("ipc-child-close-third", CALL(cuIpcCloseMemHandle, p));
	ASK("ipc-child-close-null", CALL(cuIpcCloseMemHandle, (u64)0));
	MUST(cuMemAlloc_v2, &q, (u64)64);
	ASK("ipc-child-close-own-memory", CALL(cuIpcCloseMemHandle, q));
	memset(&h, 0, sizeof h);
	ASK("ipc-child-open-zeros", open_mem(h, 1, &r));
	memset(&h, 0xa5, sizeof h);
	ASK("ipc-child-open-nonsense", open_mem(h, 1, &r));
	ASK("ipc-child-open-event-handle", open_mem(m.ev, 1, &r));
	ASK("ipc-child-open-gone", open_mem(m.gone, 1, &r));
	ASK("ipc-child-event-zeros", (memset(&h, 0, sizeof h), open_ev(h, &e2)));
	ASK("ipc-child-event-of-memory", open_ev(m.mem, &e2));
	ASK("ipc-child-event", open_ev(m.ev, &e));
	ASK("ipc-child-event-again", open_ev(m.ev, &e2));
	printf("ipc-child-event-again-same %d\n", e == e2);
	ASK("ipc-child-event-query", CALL(cuEventQuery, e));
	ASK("ipc-child-event-record", CALL(cuEventRecord, e, s));
	ASK("ipc-child-event-synchronize", CALL(cuEventSynchronize, e));
	ASK("ipc-child-event-handle-of-opened", CALL(cuIpcGetEventHandle, &h, e));
	float ms; ASK("ipc-child-event-elapsed", CALL(cuEventElapsedTime, &ms, e, e));
	ASK("ipc-child-event-wait", CALL(cuStreamWaitEvent, s, e, 0));
	ASK("ipc-child-open-for-parents-free", open_mem(m.mem, 1, &p));
	give(toParent[1], &c, 1);
	take(toChild[0], &c, 1); // the parent freed the memory, and destroyed the event
	ANSWER("ipc-child-read-after-parents-free", CALL(cuMemcpyDtoH_v2, value, p, (u64)16), value[0]);
	ASK("ipc-child-open-after-parents-free", open_mem(m.mem, 1, &q));
	printf("ipc-child-open-after-parents-free-same %d\n", p == q);
	ASK("ipc-child-event-query-after", CALL(cuEventQuery, e));
	ASK("ipc-child-event-record-after", CALL(cuEventRecord, e, s));
	ASK("ipc-child-event-open-after", open_ev(m.ev, &e2));
	ASK("ipc-child-event-destroy", CALL(cuEventDestroy_v2, e));
	ASK("ipc-child-close-after", CALL(cuIpcCloseMemHandle, p));
	ASK("ipc-child-open-after-close", open_mem(m.mem, 1, &p));
	void *ctx2;
	MUST(cuCtxCreate_v2, &ctx2, 0, 0);
	give(toParent[1], &c, 1);
	take(toChild[0], &m, sizeof m); // another handle
	ASK("ipc-child-second-open", open_mem(m.mem, 1, &p));
	ASK("ipc-child-second-context-current", CALL(cuCtxSetCurrent, ctx));
	ASK("ipc-child-open-in-another-context", open_mem(m.mem, 1, &q));
	printf("ipc-child-open-in-another-context-same %d\n", p == q);
	ASK("ipc-child-close-in-another-context", CALL(cuIpcCloseMemHandle, p));
	ASK("ipc-child-destroy-context", CALL(cuCtxDestroy_v2, ctx2));
	ANSWER("ipc-child-read-in-context", CALL(cuMemcpyDtoH_v2, value, q, (u64)16), value[0]);
	give(toParent[1], &c, 1);
	_exit(0);
}

static void ipc_parent(void)
{
	struct message m; memset(&m, 0, sizeof m);
	struct handle h2;
	u64 p = 0, g = 0, a = 0, man = 0, r = 0;
	void *ctx, *e, *plain, *e2, *s, *host;
	int value[4] = {0}, v = 0; char c = 0;
	ASK("ipc-get-before-init", CALL(cuIpcGetMemHandle, &h2, (u64)4096));
	MUST(cuInit, 0);
	ASK("ipc-get-without-context", CALL(cuIpcGetMemHandle, &h2, (u64)4096));
	MUST(cuCtxCreate_v2, &ctx, 0, 0);
	MUST(cuStreamCreate, &s, 1);
	MUST(cuMemAlloc_v2, &p, (u64)1000);
	MUST(cuMemsetD32_v2, p, 5, (u64)250);
	ASK("ipc-get", CALL(cuIpcGetMemHandle, &m.mem, p));
	ASK("ipc-get-again", CALL(cuIpcGetMemHandle, &h2, p));
	printf("ipc-get-again-equal %d\n", !memcmp(&h2, &m.mem, 64));
	ASK("ipc-get-interior", CALL(cuIpcGetMemHandle, &m.interior, p + 512));
	printf("ipc-get-interior-equal %d\n", !memcmp(&m.interior, &m.mem, 64));
	MUST(cuMemAlloc_v2, &g, (u64)1000);
	ASK("ipc-get-neighbour", CALL(cuIpcGetMemHandle, &m.gone, g));
	MUST(cuMemFree_v2, g);
	ASK("ipc-get-freed", CALL(cuIpcGetMemHandle, &h2, g));
	ASK("ipc-get-null", CALL(cuIpcGetMemHandle, &h2, (u64)0));
	ASK("ipc-get-to-null", CALL(cuIpcGetMemHandle, NULL, p));
	ASK("ipc-get-end", CALL(cuIpcGetMemHandle, &h2, p + 1000));
	MUST(cuMemAllocHost_v2, &host, (u64)4096);
	ASK("ipc-get-host", CALL(cuIpcGetMemHandle, &h2, host));
	MUST(cuMemAllocManaged, &man, (u64)4096, 1);
	ASK("ipc-get-managed", CALL(cuIpcGetMemHandle, &h2, man));
	MUST(cuMemAllocAsync, &a, (u64)4096, s);
	ASK("ipc-get-pool", CALL(cuIpcGetMemHandle, &h2, a));
	u64 pitch, pp; MUST(cuMemAllocPitch_v2, &pp, &pitch, (u64)100, (u64)10, 4);
	ASK("ipc-get-pitch", CALL(cuIpcGetMemHandle, &h2, pp));
	ANSWER("ipc-legacy-ipc-capable", CALL(cuPointerGetAttribute, &v, 10, p), v);
	ANSWER("ipc-legacy-ipc-capable-host", CALL(cuPointerGetAttribute, &v, 10, host), v);
	ANSWER("ipc-legacy-ipc-capable-pool", CALL(cuPointerGetAttribute, &v, 10, a), v);
	ASK("ipc-open-own", open_mem(m.mem, 1, &r));
	MUST(cuEventCreate, &plain, 2);
	ASK("ipc-event-interprocess-timing", CALL(cuEventCreate, &e2, 4));
	ASK("ipc-event-interprocess", CALL(cuEventCreate, &e, 6));
	ASK("ipc-event-get-plain", CALL(cuIpcGetEventHandle, &h2, plain));
	ASK("ipc-event-get", CALL(cuIpcGetEventHandle, &m.ev, e));
	ASK("ipc-event-get-null", CALL(cuIpcGetEventHandle, &h2, NULL));
	ASK("ipc-event-open-own", open_ev(m.ev, &e2));
	ASK("ipc-event-query-new", CALL(cuEventQuery, e));
	ANSWER("ipc-attribute-ipc-event-support", CALL(cuDeviceGetAttribute, &v, 125, 0), v);
	give(toChild[1], &m, sizeof m);
	take(toParent[0], &c, 1);
	ANSWER("ipc-parent-read", CALL(cuMemcpyDtoH_v2, value, p, (u64)16), value[0]);
	ASK("ipc-parent-query", CALL(cuEventQuery, e));
	ASK("ipc-parent-free", CALL(cuMemFree_v2, p));
	ASK("ipc-parent-destroy-event", CALL(cuEventDestroy_v2, e));
	give(toChild[1], &c, 1);
	take(toParent[0], &c, 1);
	MUST(cuMemAlloc_v2, &p, (u64)(8 << 20));
	MUST(cuMemsetD32_v2, p, 6, (u64)1024);
	ASK("ipc-get-large", CALL(cuIpcGetMemHandle, &m.mem, p));
	ASK("ipc-get-large-interior", CALL(cuIpcGetMemHandle, &h2, p + (3 << 20)));
	printf("ipc-get-large-interior-equal %d\n", !memcmp(&h2, &m.mem, 64));
	give(toChild[1], &m, sizeof m);
	take(toParent[0], &c, 1);
	_exit(0);
}

static void ipc(const char *cudart)
{
	(void)cudart;
	if (pipe(toChild) || pipe(toParent))
		_exit(7);
	pid_t one = fork();
	if (one == 0)
		ipc_child();
	int status = 0;
	pid_t two = fork();
	if (two == 0)
		ipc_parent();
	while (wait(&status) > 0)
		if (status)
			printf("ipc-process-ended %x\n", status);
}
