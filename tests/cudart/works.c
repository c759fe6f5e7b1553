// What programs of the runtime API do, by its ABI: each function here is one area.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"
#include "managed.h"

enum { N = 1000 };

static void devices(void)
{
	struct { cudaDeviceProp is; char after; } p;
	char id[32];
	int n = 0, v = 0, d = 7;
	unsigned flags = 99;
	size_t size = 0;
	OK(cudaGetDeviceCount(&n));
	REQUIRE(n == 1);
	OK(cudaGetDevice(&d));
	REQUIRE(d == 0);
	OK(cudaSetDevice(0));
	OK(cudaRuntimeGetVersion(&v));
	REQUIRE(v == (MAJOR == 11 ? 11080 : MAJOR == 12 ? 12080 : 13000));
	OK(cudaDriverGetVersion(&v));
	REQUIRE(v >= 13000);
	memset(&p, 0x5a, sizeof p);
	OK(cudaGetDeviceProperties(&p.is, 0));
#if MAJOR == 12 // where this is the struct of CUDA 11
	REQUIRE(((unsigned char *)&p)[727] == 0 && ((unsigned char *)&p)[728] == 0x5a);
#endif
#if !defined(STATIC) || MAJOR == 12 // other static runtimes have no other version
	OK(cudaGetDeviceProperties_v2(&p.is, 0));
#endif
	REQUIRE(strlen(p.is.name) > 0 && strlen(p.is.name) < 256);
	REQUIRE(p.after == 0x5a); // no more than the struct
#if MAJOR == 12
	REQUIRE(p.is.reserved[0] == 0); // and all of it
#elif MAJOR >= 13
	REQUIRE(p.is.reserved[0] == 0x5a5a5a5a); // NVIDIA's runtime leaves them, too
#endif
	REQUIRE(p.is.totalGlobalMem >= 1 << 20 && p.is.sharedMemPerBlock >= 48 << 10 && p.is.warpSize == 32);
	// The fields whose places depend on all before them.
	struct { int attribute; size_t value; } fields[] = {
		{1, (size_t)p.is.maxThreadsPerBlock}, {75, (size_t)p.is.major}, {76, (size_t)p.is.minor}, {9, p.is.totalConstMem},
		{16, (size_t)p.is.multiProcessorCount}, {30, p.is.surfaceAlignment}, {40, (size_t)p.is.asyncEngineCount}, {37, (size_t)p.is.memoryBusWidth},
		{81, p.is.sharedMemPerMultiprocessor}, {83, (size_t)p.is.managedMemory}, {97, p.is.sharedMemPerBlockOptin},
		{106, (size_t)p.is.maxBlocksPerMultiProcessor}, 
#if MAJOR >= 12
		{99, (size_t)p.is.hostRegisterSupported}, {115, (size_t)p.is.memoryPoolsSupported}, {120, (size_t)p.is.clusterLaunch},
#endif
	};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		OK(cudaDeviceGetAttribute(&v, fields[i].attribute, 0));
		REQUIRE((size_t)v == fields[i].value);
	}
	REQUIRE(p.is.major >= 5 && p.is.managedMemory == 1 && p.is.unifiedAddressing == 1);
	OK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
	OK(cudaDeviceGetByPCIBusId(&d, id));
	OK(cudaChooseDevice(&d, &p.is));
	OK(cudaSetValidDevices(&d, 1));
	REQUIRE(d == 0);
	OK(cudaDeviceGetLimit(&size, 0));
	REQUIRE(size > 0);
	OK(cudaSetDeviceFlags(4));
	OK(cudaGetDeviceFlags(&flags));
	REQUIRE(flags == (4 | 8)); // and memory of the program can be mapped
	GIVES(cudaErrorInvalidValue, cudaSetDeviceFlags(3));
	REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
	OK(cudaSetDeviceFlags(0));
	cudaChannelFormatDesc c = cudaCreateChannelDesc(8, 16, 24, 32, 2);
	REQUIRE(c.x == 8 && c.y == 16 && c.z == 24 && c.w == 32 && c.f == 2);
}

static void launches(void)
{
	uint32_t *d, h[N];
	for (unsigned i = 0; i < N; i++)
		h[i] = i;
	OK(cudaMalloc(&d, sizeof h));
	OK(cudaMemcpy(d, h, sizeof h, HostToDevice));
	LAUNCH((N + 255) / 256, 256, 0, NULL) add(d, 5, N);
	OK(cudaGetLastError());
	unsigned what = 6, n = N;
	void *args[] = {&d, &what, &n}, *kernel = NULL, *function = NULL;
	cudaLaunchConfig_t config = {.grid = {(N + 63) / 64, 1, 1}, .block = {64, 1, 1}};
	OK(cudaLaunchKernelExC(&config, (const void *)add, args));
	OK(cudaGetKernel(&kernel, (const void *)add));
	OK(cudaLaunchKernel(kernel, config.grid, config.block, args, 0, NULL));
	OK(cudaGetFuncBySymbol(&function, (const void *)add));
	OK(cudaLaunchKernel_ptsz(function, config.grid, config.block, args, 0, NULL));
	OK(cudaStreamSynchronize_ptsz(NULL));
	OK(cudaMemcpy(h, d, sizeof h, Default));
	for (unsigned i = 0; i < N; i++)
		REQUIRE(h[i] == i + 5 + 6 + 6 + 6);
	OK(cudaFree(d));

	cudaFuncAttributes a;
	memset(&a, 0x5a, sizeof a);
	int blocks = 0;
	size_t dynamic = 0;
	const char *name = NULL;
	OK(cudaFuncGetAttributes(&a, (const void *)scale));
	REQUIRE((a.rest[4] == 0x5a5a5a5a) == (MAJOR == 11)); // which has no clusters
	REQUIRE(a.maxThreadsPerBlock >= 256 && a.ptxVersion == 70 && a.binaryVersion >= a.ptxVersion);
	OK(cudaFuncSetAttribute((const void *)scale, 8, 1024));
	OK(cudaFuncGetName(&name, (const void *)scale));
	REQUIRE(strcmp(name, "scale") == 0);
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)add, 128, 0));
	REQUIRE(blocks > 0);
	OK(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, (const void *)add, 1, 128));
	REQUIRE(dynamic > 0);
}

static void symbols(void)
{
	float f = 3, h[4] = {1, 2, 3, 4}, *d;
	char bytes[16], back[16] = "";
	void *at = NULL;
	size_t size = 0;
	OK(cudaMemcpyToSymbol(&factor, &f, sizeof f, 0, HostToDevice));
	OK(cudaMalloc(&d, sizeof h));
	OK(cudaMemcpy(d, h, sizeof h, HostToDevice));
	LAUNCH(1, 4, 0, NULL) scale(d);
	OK(cudaMemcpy(h, d, sizeof h, DeviceToHost));
	REQUIRE(h[0] == 3 && h[3] == 12);
	OK(cudaGetSymbolSize(&size, table));
	REQUIRE(size == 16);
	OK(cudaGetSymbolAddress(&at, table));
	memcpy(bytes, "abcdefghijklmno", 16);
	OK(cudaMemcpy(at, bytes, 16, HostToDevice));
	OK(cudaMemcpyToSymbol(table, "XY", 2, 3, HostToDevice));
	OK(cudaMemcpyFromSymbol(back, table, 10, 2, Default));
	REQUIRE(strcmp(back, "cXYfghijkl") == 0);
	OK(cudaFree(d));
}

static void copies(void)
{
	unsigned char h[64 * 8], back[64 * 8], *d, *row;
	size_t pitch = 0, available = 0, total = 0;
	for (size_t i = 0; i < sizeof h; i++)
		h[i] = (unsigned char)(i * 7);
	OK(cudaMallocPitch(&d, &pitch, 64, 8));
	REQUIRE(pitch >= 64);
	OK(cudaMemset2D(d, pitch, 9, 64, 8));
	OK(cudaMemcpy2D(d, pitch, h, 64, 60, 8, HostToDevice));
	OK(cudaMemcpy2D(back, 64, d, pitch, 64, 8, DeviceToHost));
	for (size_t i = 0; i < sizeof h; i++)
		REQUIRE(back[i] == (i % 64 < 60 ? h[i] : 9));
	OK(cudaMalloc(&row, sizeof h));
	OK(cudaMemcpy2D(row, 64, d, pitch, 64, 8, DeviceToDevice));
	OK(cudaMemcpyPeer(d, 0, row, 0, 64));
	memset(back, 0, sizeof back);
	OK(cudaMemcpy_ptds(back, row, sizeof back, DeviceToHost));
	REQUIRE(back[64] == h[64] && back[63] == 9);
	OK(cudaMemcpy(back, h, sizeof back, HostToHost));
	REQUIRE(memcmp(back, h, sizeof h) == 0);
	OK(cudaFree(row));
	OK(cudaFree(d));

	// A box in the middle of another.
	cudaPitchedPtr p;
	cudaExtent e = {16, 4, 2};
	OK(cudaMalloc3D(&p, e));
	REQUIRE(p.pitch >= 16 && p.xsize == 16 && p.ysize == 4);
	OK(cudaMemset3D(p, 1, e));
	OK(cudaMemset3D(p, 2, (cudaExtent){8, 2, 2}));
	cudaMemcpy3DParms c = {.srcPtr = {h, 16, 16, 4}, .dstPtr = p, .dstPos = {4, 1, 1}, .extent = {4, 2, 1}, .kind = HostToDevice};
	OK(cudaMemcpy3D(&c));
	c = (cudaMemcpy3DParms){.srcPtr = p, .dstPtr = {back, 16, 16, 4}, .extent = e, .kind = DeviceToHost};
	OK(cudaMemcpy3D(&c));
	for (size_t z = 0; z < 2; z++)
		for (size_t y = 0; y < 4; y++)
			for (size_t x = 0; x < 16; x++) {
				unsigned char want = x < 8 && y < 2 ? 2 : 1;
				if (z == 1 && y >= 1 && y < 3 && x >= 4 && x < 8)
					want = h[(y - 1) * 16 + x - 4];
				REQUIRE(back[(z * 4 + y) * 16 + x] == want);
			}
	OK(cudaFree(p.ptr));
	OK(cudaMemGetInfo(&available, &total));
	REQUIRE(available > 0 && available <= total);
}

// Copies from and to arrays count elements, which two arrays must have of one size.
static void arrays(void)
{
	const cudaChannelFormatDesc word = {32, 0, 0, 0, 1}, byte = {8, 0, 0, 0, 1};
	void *words, *more, *bytes;
	uint32_t h[2][8], back[2][4];
	for (uint32_t i = 0; i < 16; i++)
		h[i / 8][i % 8] = i * 1000;
	OK(cudaMallocArray(&words, &word, 8, 2, 0));
	OK(cudaMallocArray(&more, &word, 8, 2, 0));
	OK(cudaMallocArray(&bytes, &byte, 64, 2, 0));
	cudaMemcpy3DParms c = {.srcPtr = {h, sizeof h[0], 8, 2}, .dstArray = words, .extent = {8, 2, 1}, .kind = HostToDevice};
	OK(cudaMemcpy3D(&c));
	c = (cudaMemcpy3DParms){.srcArray = words, .srcPos = {3, 0, 0}, .dstArray = more, .dstPos = {1, 0, 0}, .extent = {4, 2, 1}, .kind = DeviceToDevice};
	OK(cudaMemcpy3D(&c));
	c.dstArray = bytes;
	GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&c));
	REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
	c = (cudaMemcpy3DParms){.srcArray = more, .srcPos = {1, 0, 0}, .dstPtr = {back, sizeof back[0], 4, 2}, .extent = {4, 2, 1}, .kind = DeviceToHost};
	OK(cudaMemcpy3D(&c));
	for (uint32_t i = 0; i < 8; i++)
		REQUIRE(back[i / 4][i % 4] == h[i / 4][3 + i % 4]);
	OK(cudaFreeArray(words));
	OK(cudaFreeArray(more));
	OK(cudaFreeArray(bytes));
}

static void host_memory(void)
{
	uint32_t *h, *d, *mapped, own[64];
	unsigned flags = 0;
	cudaPointerAttributes a;
	OK(cudaHostAlloc(&h, 4096, 2));
	OK(cudaHostGetFlags(&flags, h));
	REQUIRE(flags & 2);
	OK(cudaHostGetDevicePointer(&mapped, h, 0));
	h[7] = 1;
	REQUIRE(mapped == h); // one address for both
	LAUNCH(1, 8, 0, NULL) add(h, 41, 8);
	OK(cudaDeviceSynchronize());
	REQUIRE(h[7] == 42);
	OK(cudaPointerGetAttributes(&a, h));
	REQUIRE(a.type == 1 && a.device == 0 && a.hostPointer == h && a.devicePointer == mapped);
	OK(cudaMalloc(&d, 64));
	OK(cudaPointerGetAttributes(&a, d));
	REQUIRE(a.type == 2 && a.devicePointer == d && a.hostPointer == NULL);
	OK(cudaPointerGetAttributes(&a, own));
	REQUIRE(a.type == 0 && a.devicePointer == NULL);
	OK(cudaHostRegister(own, sizeof own, 0));
	OK(cudaHostUnregister(own));
	OK(cudaFree(d));
	OK(cudaFreeHost(h));
	OK(cudaMallocHost(&h, 64));
	OK(cudaFreeHost(h));
}

static void managed(void)
{
	uint32_t *m, *more[3];
	cudaPointerAttributes a;
	OK(cudaMallocManaged(&m, N * 4, 1));
	for (int i = 0; i < 3; i++) {
		OK(cudaMallocManaged(&more[i], 1 << 16, 1));
		more[i][5] = 5;
	}
	for (unsigned i = 0; i < N; i++)
		m[i] = i;
	LAUNCH((N + 255) / 256, 256, 0, NULL) add(m, 7, N);
	OK(cudaDeviceSynchronize());
	for (unsigned i = 0; i < N; i++)
		REQUIRE(m[i] == i + 7);
	OK(cudaPointerGetAttributes(&a, m + 3));
	REQUIRE(a.type == 3 && a.devicePointer == m + 3 && a.hostPointer == m + 3);
	OK(cudaMemcpy(m, more[1], 64, Default));
	REQUIRE(m[5] == 5);
	OK(cudaMemset(m, 1, 8)); // waits, as the program can look
	REQUIRE(m[0] == 0x01010101);
	OK(cudaStreamAttachMemAsync(NULL, m, 0, 1));
	GIVES(cudaErrorInvalidValue, cudaFreeHost(m));
	OK(cudaFree(m));
	for (int i = 0; i < 3; i++)
		OK(cudaFree(more[i]));
}

static int called;

static void count(void *by)
{
	called += *(int *)by;
	GIVES(cudaErrorNotPermitted, cudaDeviceSynchronize());
}

static void count_too(cudaStream_t s, cudaError_t e, void *by)
{
	REQUIRE(s != NULL && e == cudaSuccess);
	called += *(int *)by;
}

static void streams(void)
{
	cudaStream_t s, t;
	cudaEvent_t a, b;
	uint32_t *d, h[N] = {0};
	float ms = -1;
	int one = 1, status = 9;
	OK(cudaStreamCreate(&s));
	OK(cudaStreamCreateWithFlags(&t, 1));
	OK(cudaEventCreate(&a));
	OK(cudaEventCreateWithFlags(&b, 0));
	OK(cudaMallocAsync(&d, sizeof h, s));
	OK(cudaMemsetAsync(d, 0, sizeof h, s));
	OK(cudaEventRecord(a, s));
	LAUNCH((N + 255) / 256, 256, 0, s) add(d, 1, N);
	OK(cudaEventRecord(b, s));
	OK(cudaStreamWaitEvent(t, b, 0));
	LAUNCH((N + 255) / 256, 256, 0, t) add(d, 2, N);
	OK(cudaMemcpyAsync(h, d, sizeof h, DeviceToHost, t));
	OK(cudaStreamSynchronize(t));
	REQUIRE(h[0] == 3 && h[N - 1] == 3);
	OK(cudaEventSynchronize(b));
	OK(cudaEventQuery(b));
	OK(cudaEventElapsedTime(&ms, a, b));
	REQUIRE(ms >= 0);
	OK(cudaLaunchHostFunc(s, count, &one));
	OK(cudaStreamAddCallback(s, count_too, &one, 0));
	OK(cudaStreamSynchronize(s));
	REQUIRE(called == 2);
	OK(cudaStreamQuery(s));
	OK(cudaStreamIsCapturing(s, &status));
	REQUIRE(status == 0);
	OK(cudaFreeAsync(d, s));
	OK(cudaEventDestroy(a));
	OK(cudaEventDestroy(b));
	OK(cudaStreamDestroy(s));
	OK(cudaStreamDestroy(t));
}

// Each stream allocates, uses and frees without waiting, and hands what it made to the next.
static void pools(void)
{
	enum { STREAMS = 3, ROUNDS = 20 };
	cudaStream_t s[STREAMS];
	cudaEvent_t made;
	cudaMemPool_t standard, pool;
	cudaMemPoolProps props = {.allocType = 1, .location = {1, 0}}; // pinned, of the device
	cudaMemLocation here = {1, 0};
	cudaMemAccessDesc all = {here, 3};
	uint32_t *d, *last, h[N];
	uint64_t keep = UINT64_MAX, held = 0, used = 1;
	int access = 0, reuse = 0;
	OK(cudaDeviceGetDefaultMemPool(&standard, 0));
	OK(cudaDeviceGetMemPool(&pool, 0));
	REQUIRE(pool == standard);
	GIVES(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&pool, 7));
	REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
	OK(cudaMemPoolCreate(&pool, &props));
	OK(cudaMemPoolSetAttribute(pool, 4, &keep));
	OK(cudaMemPoolGetAttribute(pool, 1, &reuse));
	OK(cudaMemPoolSetAccess(pool, &all, 1));
	OK(cudaMemPoolGetAccess(&access, pool, &here));
	REQUIRE(reuse == 1 && access == 3);
	OK(cudaEventCreate(&made));
	for (int i = 0; i < STREAMS; i++)
		OK(cudaStreamCreateWithFlags(&s[i], 1));
	OK(cudaMallocFromPoolAsync(&last, sizeof h, pool, s[0]));
	OK(cudaMemsetAsync(last, 0, sizeof h, s[0]));
	OK(cudaDeviceSetMemPool(0, pool));
	for (int i = 1; i < STREAMS * ROUNDS; i++) {
		cudaStream_t on = s[i % STREAMS];
		OK(cudaEventRecord(made, s[(i - 1) % STREAMS]));
		OK(cudaStreamWaitEvent(on, made, 0));
		OK(cudaMallocAsync(&d, sizeof h, on));
		OK(cudaMemcpyAsync(d, last, sizeof h, DeviceToDevice, on));
		LAUNCH((N + 255) / 256, 256, 0, on) add(d, 1, N);
		OK(cudaFreeAsync(last, on));
		last = d;
	}
	OK(cudaMemcpyAsync(h, last, sizeof h, DeviceToHost, s[(STREAMS * ROUNDS - 1) % STREAMS]));
	OK(cudaStreamSynchronize(s[(STREAMS * ROUNDS - 1) % STREAMS]));
	for (int i = 0; i < N; i++)
		REQUIRE(h[i] == STREAMS * ROUNDS - 1);
	OK(cudaFreeAsync(last, NULL));
	GIVES(cudaErrorInvalidValue, cudaFreeAsync(last, NULL));
	OK(cudaDeviceSynchronize());
	OK(cudaMemPoolGetAttribute(pool, 5, &held));
	OK(cudaMemPoolGetAttribute(pool, 7, &used));
	REQUIRE(held >= sizeof h && used == 0);
	OK(cudaMemPoolTrimTo(pool, 0));
	OK(cudaMemPoolGetAttribute(pool, 5, &held));
	REQUIRE(held == 0);
	GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(standard));
	OK(cudaMemPoolDestroy(pool));
	GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
	REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
	OK(cudaDeviceGetMemPool(&pool, 0));
	REQUIRE(pool == standard);
	OK(cudaEventDestroy(made));
	for (int i = 0; i < STREAMS; i++)
		OK(cudaStreamDestroy(s[i]));
}

// What goes to other processes by a descriptor comes back in this one, at another address.
static void sharedPool(void)
{
	enum { DESCRIPTOR = 1 };
	cudaMemPool_t pool, other;
	cudaMemPoolProps props = {.allocType = 1, .handleTypes = DESCRIPTOR, .location = {1, 0}};
	cudaMemPoolPtrExportData data;
	uint32_t *d, *e, h[N];
	int fd = -1;
	OK(cudaMemPoolCreate(&pool, &props));
	OK(cudaMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
	OK(cudaMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)fd, DESCRIPTOR, 0));
	OK(cudaMallocFromPoolAsync(&d, sizeof h, pool, NULL));
	OK(cudaMemPoolExportPointer(&data, d));
	OK(cudaMemPoolImportPointer(&e, other, &data));
	REQUIRE(d != e);
	OK(cudaMemset(d, 1, sizeof h));
	OK(cudaMemcpy(h, e, sizeof h, DeviceToHost));
	for (int i = 0; i < N; i++)
		REQUIRE(h[i] == 0x01010101);
	GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&e, sizeof h, other, NULL));
	GIVES(cudaErrorInvalidValue, cudaMemPoolExportPointer(&data, h));
	REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
	OK(cudaFreeAsync(e, NULL));
	OK(cudaFree(d));
	OK(cudaMemPoolDestroy(other));
	OK(cudaMemPoolDestroy(pool));
	close(fd);
}

static void *worker(void *number)
{
	uint32_t *d, h[N], what = (uint32_t)(uintptr_t)number;
	REQUIRE(cudaPeekAtLastError() == cudaSuccess); // each thread has its own
	OK(cudaMalloc(&d, sizeof h));
	OK(cudaMemset(d, 0, sizeof h));
	for (int i = 0; i < 20; i++)
		LAUNCH((N + 255) / 256, 256, 0, NULL) add(d, what, N);
	OK(cudaMemcpy(h, d, sizeof h, DeviceToHost));
	REQUIRE(h[0] == 20 * what && h[N - 1] == 20 * what);
	OK(cudaFree(d));
	return NULL;
}

static void threads(void)
{
	pthread_t all[8];
	GIVES(cudaErrorInvalidDevice, cudaSetDevice(1));
	for (uintptr_t i = 0; i < 8; i++)
		REQUIRE(pthread_create(&all[i], NULL, worker, (void *)(i + 1)) == 0);
	for (int i = 0; i < 8; i++)
		pthread_join(all[i], NULL);
	REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
}

// After a reset all is as at the start, in every thread.
static void reset(void)
{
	float f = 2, back = 0;
	pthread_t t;
	OK(cudaDeviceReset());
	OK(cudaMemcpyToSymbol(&factor, &f, sizeof f, 0, HostToDevice));
	OK(cudaMemcpyFromSymbol(&back, &factor, sizeof back, 0, DeviceToHost));
	REQUIRE(back == 2);
	REQUIRE(pthread_create(&t, NULL, worker, (void *)3) == 0 && pthread_join(t, NULL) == 0);
	OK(cudaDeviceReset());
	OK(cudaDeviceReset());
	launches();
}

#ifdef STATIC
int own(void); // static/own.c
#else
static int own(void) { return 1; }
#endif

#ifndef FORKS
#define FORKS 1 // 0: main is called in a process that has a GPU already
#endif

// A child that is made before the first call has a GPU of its own.
int main(void)
{
	int status = -1;
	pid_t child = FORKS ? fork() : 1;
	REQUIRE(child >= 0);
	REQUIRE(own());
	devices();
	launches();
	symbols();
	copies();
	arrays();
	host_memory();
	managed();
	managed_variables();
	streams();
	pools();
	sharedPool();
	threads();
	reset();
	if (child == 0)
		exit(0);
	REQUIRE(!FORKS || (waitpid(child, &status, 0) == child && status == 0));
	puts("works: PASS");
	return 0;
}
