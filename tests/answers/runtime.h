// The runtime API, and which of its errors it keeps.
#pragma once
#include "ask.h"

static void nap(void *unused)
{
	(void)unused;
	usleep(200000);
}

static void runtime(const char *name)
{
	static unsigned char room[4096];
	library = dlopen(name, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	memset(room, 0x5a, sizeof room);
	written("runtime-properties", CALL(cudaGetDeviceProperties, room, 0), room, sizeof room);
	unsigned flags = 99;
	ANSWER("runtime-flags", CALL(cudaGetDeviceFlags, &flags), flags);
	ASK("runtime-peer-is-self", CALL(cudaDeviceEnablePeerAccess, 0, 0));
	ASK("runtime-no-peer", CALL(cudaDeviceDisablePeerAccess, 0));
	struct { int type, device; void *on_device, *on_host; } p;
	memset(room, 0x5a, sizeof room);
	int r = CALL(cudaPointerGetAttributes, room, &flags);
	memcpy(&p, room, sizeof p);
	printf("runtime-strange-memory %d %d %d %d %d\n", r, p.type, p.device, p.on_device == NULL, p.on_host == &flags);
	void *f = (void *)1;
	int status = 99;
	r = CALL(cudaGetDriverEntryPointByVersion, "cuNoSuchThing", &f, 12050, (u64)0, &status);
	printf("runtime-no-such-function %d %d %d\n", r, f == NULL, status);
	(void)CALL(cudaGetLastError);
	MUST(cudaLaunchHostFunc, NULL, nap, NULL);
	r = CALL(cudaStreamQuery, NULL);
	printf("runtime-not-ready %d %d\n", r, CALL(cudaPeekAtLastError));
	MUST(cudaDeviceSynchronize);
}

// kept asks which errors cudaPeekAtLastError and cudaGetLastError still know of.
static void kept(const char *question, int result)
{
	int peek = CALL(cudaPeekAtLastError), last = CALL(cudaGetLastError), again = CALL(cudaGetLastError);
	printf("%s %d %d %d %d\n", question, result, peek, last, again);
}

static void errors_of_runtime(const char *name)
{
	static char host[256], room[8192];
	void *p = NULL, *q = NULL, *stream, *event, *other;
	size_t n;
	int value;
	float ms;
	if (!name || !(library = dlopen(name, RTLD_NOW))) {
		fprintf(stderr, "no runtime\n");
		return;
	}
#define KEPT(question, name, ...) kept("runtime-" question, CALL(name, __VA_ARGS__))
	ASK("runtime-last-at-first", CALL(cudaGetLastError));
	KEPT("free-null", cudaFree, NULL);
	KEPT("free-host-null", cudaFreeHost, NULL);
	KEPT("allocate", cudaMalloc, &p, (u64)4096);
	KEPT("allocate-nothing", cudaMalloc, &q, (u64)0);
	printf("runtime-nothing-is-null %d\n", q == NULL);
	KEPT("allocate-all", cudaMalloc, &q, (u64)1 << 50);
	KEPT("allocate-to-null", cudaMalloc, NULL, (u64)64);
	KEPT("allocate-pinned-nothing", cudaHostAlloc, &q, (u64)0, 0);
	KEPT("allocate-managed-nothing", cudaMallocManaged, &q, (u64)0, 1);
	KEPT("allocate-managed-flags-0", cudaMallocManaged, &q, (u64)64, 0);
	KEPT("allocate-async-nothing", cudaMallocAsync, &q, (u64)0, NULL);
	KEPT("free-async-null", cudaFreeAsync, NULL, NULL);
	KEPT("free-wild", cudaFree, host);
	KEPT("free-host-wild", cudaFreeHost, host);
	KEPT("free-inside", cudaFree, (char *)p + 16);
	KEPT("copy-kind-5", cudaMemcpy, p, host, (u64)64, 5);
	KEPT("copy-kind-minus-1", cudaMemcpy, p, host, (u64)64, -1);
	KEPT("copy-nothing-kind-5", cudaMemcpy, p, host, (u64)0, 5);
	KEPT("copy-nothing-to-null", cudaMemcpy, NULL, NULL, (u64)0, 1);
	KEPT("copy-wrong-way", cudaMemcpy, p, host, (u64)64, 2);
	KEPT("copy-host-as-device", cudaMemcpy, p, host, (u64)64, 3);
	KEPT("copy-default", cudaMemcpy, p, host, (u64)64, 4);
	KEPT("copy-beyond", cudaMemcpy, p, room, (u64)4097, 1);
	KEPT("copy-rows-beyond-pitch", cudaMemcpy2D, p, (u64)16, host, (u64)16, (u64)17, (u64)2, 1);
	KEPT("copy-one-row-beyond-pitch", cudaMemcpy2D, p, (u64)16, host, (u64)16, (u64)17, (u64)1, 1);
	KEPT("copy-no-rows", cudaMemcpy2D, p, (u64)16, host, (u64)16, (u64)17, (u64)0, 1);
	KEPT("copy-to-symbol", cudaMemcpyToSymbol, host, room, (u64)4, (u64)0, 1);
	KEPT("symbol-address", cudaGetSymbolAddress, &q, host);
	KEPT("set-3-bytes", cudaMemset, (char *)p + 1, 0, (u64)3);
	KEPT("set-nothing-at-null", cudaMemset, NULL, 0, (u64)0);
	KEPT("set-null", cudaMemset, NULL, 0, (u64)4);
	KEPT("set-beyond", cudaMemset, p, 0, (u64)4097);
	KEPT("set-host", cudaMemset, host, 0, (u64)4);
	KEPT("set-rows-beyond-pitch", cudaMemset2D, p, (u64)16, 0, (u64)17, (u64)2);
	KEPT("pitch-of-nothing", cudaMallocPitch, &q, &n, (u64)0, (u64)4);
	KEPT("device-7", cudaSetDevice, 7);
	KEPT("device-minus-1", cudaSetDevice, -1);
	KEPT("properties-of-7", cudaGetDeviceProperties, room, 7);
	KEPT("attribute-9999", cudaDeviceGetAttribute, &value, 9999, 0);
	KEPT("count-to-null", cudaGetDeviceCount, NULL);
	KEPT("pointer-null", cudaPointerGetAttributes, room, NULL);
	KEPT("device-pointer-of-host", cudaHostGetDevicePointer, &q, host, 0);
	KEPT("unregister-nothing", cudaHostUnregister, host);
	KEPT("stream-flags-2", cudaStreamCreateWithFlags, &stream, 2);
	KEPT("event-flags-8", cudaEventCreateWithFlags, &event, 8);
	KEPT("event-query-null", cudaEventQuery, NULL);
	KEPT("event-destroy-null", cudaEventDestroy, NULL);
	KEPT("stream-destroy-null", cudaStreamDestroy, NULL);
	MUST(cudaStreamCreate, &stream);
	MUST(cudaEventCreate, &event);
	MUST(cudaEventCreate, &other);
	KEPT("event-query-before-record", cudaEventQuery, event);
	KEPT("elapsed-before-record", cudaEventElapsedTime, &ms, event, other);
	KEPT("primary-peer-is-self", cudaDeviceEnablePeerAccess, 0, 0);
	KEPT("primary-no-peer", cudaDeviceDisablePeerAccess, 0);
	KEPT("peer-of-7", cudaDeviceEnablePeerAccess, 7, 0);
	KEPT("no-peer-of-7", cudaDeviceDisablePeerAccess, 7);
	KEPT("limit-99", cudaDeviceGetLimit, &n, 99);
	KEPT("launch-unknown", cudaFuncGetAttributes, room, host);
	KEPT("begin-capture-null", cudaStreamBeginCapture, NULL, 0);
	KEPT("end-without-capture", cudaStreamEndCapture, stream, &q);
	KEPT("graph-launch-null", cudaGraphLaunch, NULL, stream);
	KEPT("pool-of-7", cudaDeviceGetDefaultMemPool, &q, 7);
	(void)CALL(cudaSetDevice, 7);
	(void)CALL(cudaFree, NULL);
	ASK("runtime-kept-after-success", CALL(cudaPeekAtLastError));
	(void)CALL(cudaDeviceReset);
	kept("runtime-kept-after-reset", 0);
}
