// What the runtime API refuses, and that each thread keeps its error until it asks.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"

static void pointers(void)
{
	char buf[64];
	void *wrong[] = {NULL, (void *)8, (void *)0xdeadbeef000, (void *)UINT64_MAX};
	for (int i = 0; i < 4; i++) {
		void *w = wrong[i];
		GIVES(cudaErrorInvalidValue, cudaMalloc(w, 64));
		GIVES(cudaErrorInvalidValue, cudaMalloc(w, 0));
		GIVES(cudaErrorInvalidValue, cudaMallocManaged(w, 64, 1));
		GIVES(cudaErrorInvalidValue, cudaMallocHost(w, 64));
		GIVES(cudaErrorInvalidValue, cudaMalloc3D(w, (cudaExtent){1, 1, 1}));
		GIVES(cudaErrorInvalidValue, cudaGetDeviceProperties(w, 0));
		GIVES(cudaErrorInvalidValue, cudaGetDeviceCount(w));
		GIVES(cudaErrorInvalidValue, cudaGetDevice(w));
		GIVES(cudaErrorInvalidValue, cudaRuntimeGetVersion(w));
		GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(w, buf));
		GIVES(cudaErrorInvalidValue, cudaFuncGetAttributes(w, (const void *)add));
		GIVES(cudaErrorInvalidValue, cudaGetSymbolAddress(w, table));
		GIVES(cudaErrorInvalidValue, cudaGetSymbolSize(w, table));
		GIVES(cudaErrorInvalidValue, cudaGetKernel(w, (const void *)add));
		GIVES(cudaErrorInvalidValue, cudaLaunchKernelExC(w, (const void *)add, NULL));
		GIVES(cudaErrorInvalidValue, cudaMemcpy3D(w));
		GIVES(cudaErrorInvalidValue, cudaStreamCreate(w));
		GIVES(cudaErrorInvalidValue, cudaMemcpy(w, buf, sizeof buf, HostToHost));
		GIVES(cudaErrorInvalidValue, cudaMemcpy(buf, w, sizeof buf, HostToHost));
		GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, w, 16, 0, HostToDevice));
		GIVES(cudaErrorInvalidValue, cudaMemcpyFromSymbol(w, table, 16, 0, DeviceToHost));
	}
}

static void arguments(void)
{
	void *d, *args[3] = {NULL, NULL, NULL};
	dim3 one = {1, 1, 1};
	cudaFuncAttributes a;
	size_t size;
	char h[64];
	int n;
	OK(cudaMalloc(&d, 64));
	GIVES(cudaErrorMemoryAllocation, cudaMalloc(&args[0], (size_t)1 << 62));
	GIVES(cudaErrorMemoryAllocation, cudaMalloc3D((cudaPitchedPtr *)h, (cudaExtent){1, (size_t)1 << 40, (size_t)1 << 40}));
	GIVES(cudaErrorInvalidValue, cudaMallocManaged(&args[0], 64, 99));
	GIVES(cudaErrorInvalidValue, cudaFree(h));
	GIVES(cudaErrorInvalidValue, cudaFreeHost(h));
	GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, h, 64, 5));
	GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, h, 64, -1));
	GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(table, h, 1, 0, DeviceToHost));
	GIVES(cudaErrorInvalidValue, cudaMemcpy(d, h, 65, HostToDevice));
	GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(d, 4, h, 8, 8, 2, HostToDevice));
	GIVES(cudaErrorInvalidValue, cudaMemset(d, 0, 65));
	GIVES(cudaErrorInvalidValue, cudaMemset3D((cudaPitchedPtr){d, SIZE_MAX, 8, SIZE_MAX}, 0, (cudaExtent){8, 8, SIZE_MAX}));
	GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, h, 16, 1, HostToDevice));
	GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, h, 1, SIZE_MAX, HostToDevice));
	GIVES(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(h, h, 1, 0, HostToDevice));
	GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, (const void *)add));
	GIVES(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, (const void *)stranger));
	GIVES(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, table));
	GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((const void *)stranger, one, one, args, 0, NULL));
	GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((const void *)no_kernel, one, one, args, 0, NULL));
	GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(NULL, one, one, args, 0, NULL));
	GIVES(cudaErrorInvalidValue, cudaLaunchKernel((const void *)add, one, one, args, 0, NULL));
	GIVES(cudaErrorInvalidValue, cudaLaunchKernel((const void *)add, one, one, (void **)8, 0, NULL));
	GIVES(cudaErrorInvalidValue, cudaLaunchKernel((const void *)add, one, one, args, (size_t)1 << 40, NULL));
	GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize((cudaStream_t)h));
	GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
	GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy((cudaEvent_t)h));
	GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
	GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties((cudaDeviceProp *)h, 1));
	GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(d, 0, d, 1, 8));
	GIVES(217 /* cudaErrorPeerAccessUnsupported */, cudaDeviceEnablePeerAccess(0, 0));
	GIVES(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(0, 1));
	GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
	GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&n, 9999, 0));
	OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &args[0], 12000, 0, &n)); // the status says it
	REQUIRE(args[0] == NULL && n == 1);
	GIVES(cudaErrorNotSupported, cudaImportExternalMemory(&args[0], h));
	GIVES(cudaErrorInvalidValue, cudaGraphCreate(&args[0], 1));
	GIVES(cudaErrorInvalidValue, cudaMallocArray(&args[0], NULL, 1, 1, 0));
	OK(cudaFree(d));
	OK(cudaFree(NULL));
	OK(cudaFreeHost(NULL));
	OK(cudaMalloc(&d, 0));
	REQUIRE(d == NULL);
}

// A launch that fails tells by the error that the thread keeps.
static void kept(void)
{
	uint32_t *d;
	dim3 g, b;
	size_t s;
	cudaStream_t t;
	(void)cudaGetLastError();
	OK(cudaMalloc(&d, 64));
	LAUNCH(1, 4096, 0, NULL) add(d, 1, 16);
	REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidValue);
	OK(cudaFree(NULL)); // one that works does not change it
	REQUIRE(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
	GIVES(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&g, &b, &s, &t));
	for (int i = 0; i < 64; i++)
		REQUIRE(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, (unsigned)i}, 7, NULL) == 0);
	REQUIRE(__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){1, 1, 1}, 0, NULL) != 0);
	for (int i = 64; i-- > 0;) {
		OK(__cudaPopCallConfiguration(&g, &b, &s, &t));
		REQUIRE(g.x == 1 && g.y == 2 && g.z == 3 && b.x == 4 && b.y == 5 && b.z == (unsigned)i && s == 7);
	}
	(void)cudaGetLastError();
	REQUIRE(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
	REQUIRE(strcmp(cudaGetErrorName(0), "cudaSuccess") == 0 && strlen(cudaGetErrorString(0)) > 0);
	REQUIRE(strlen(cudaGetErrorName(12345)) > 0 && strlen(cudaGetErrorString(-1)) > 0);
	OK(cudaFree(d));
}

// A kernel that goes wrong loses the context, until a reset.
static void lost(void)
{
	uint32_t *d;
	LAUNCH(1, 1, 0, NULL) add((uint32_t *)64, 1, 1);
	GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
	GIVES(cudaErrorIllegalAddress, cudaMalloc(&d, 64));
	(void)cudaDeviceReset();
	(void)cudaGetLastError();
	OK(cudaMalloc(&d, 64));
	LAUNCH(1, 16, 0, NULL) add(d, 1, 16);
	OK(cudaDeviceSynchronize());
	OK(cudaFree(d));
}

// An image without PTX, and one whose __managed__ variable is none, fail when they are used.
static void images(void)
{
	static struct fatbin f;
	static struct wrapper w;
	static char none, in_program;
	void **m, *managed = NULL;
	size_t size;
	fill_fatbin(&f, &w, "not PTX");
	f.kind = 2; // machine code
	m = __cudaRegisterFatBinary(&w);
	REQUIRE(__cudaInitModule(m) == 1);
	__cudaRegisterVar(m, &none, "x", "x", 0, 1, 0, 0);
	__cudaRegisterFatBinaryEnd(m);
	GIVES(cudaErrorNoKernelImageForDevice, cudaGetSymbolSize(&size, &none));
	__cudaUnregisterFatBinary(m);
	GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, &none));
	m = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterManagedVar(m, &managed, "table", "table", 0, 16, 0, 0);
	__cudaRegisterVar(m, &in_program, "factor", "factor", 0, 4, 1, 0);
	GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, &in_program));
	REQUIRE(__cudaInitModule(m) == 0 && cudaGetLastError() == cudaErrorInvalidSymbol);
	__cudaUnregisterFatBinary(m);
	__cudaUnregisterFatBinary(NULL);
	m = __cudaRegisterFatBinary((void *)8);
	__cudaRegisterVar(m, &none, "x", (const char *)8, 0, 1, 0, 0);
	GIVES(cudaErrorInvalidValue, cudaGetSymbolSize(&size, &none));
	__cudaUnregisterFatBinary(m);
}

static volatile int stop;

static void *busy(void *unused)
{
	uint32_t *d;
	size_t size;
	(void)unused;
	OK(cudaMalloc(&d, 64));
	while (!stop)
		OK(cudaGetSymbolSize(&size, table));
	OK(cudaFree(d));
	return NULL;
}

// The child of a process that has used the GPU cannot use it, but it can end in order.
static void forked(void)
{
	pthread_t t;
	OK(cudaFree(NULL));
	REQUIRE(pthread_create(&t, NULL, busy, NULL) == 0);
	for (int i = 0; i < 20; i++) {
		int status = -1, n;
		pid_t child = fork();
		REQUIRE(child >= 0);
		if (child == 0) {
			void *d;
			size_t size;
			GIVES(cudaErrorInitializationError, cudaMalloc(&d, 64));
			GIVES(cudaErrorInitializationError, cudaGetDeviceCount(&n));
			GIVES(cudaErrorInitializationError, cudaGetSymbolSize(&size, table));
			exit(42);
		}
		REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
	}
	stop = 1;
	pthread_join(t, NULL);
}

int main(void)
{
	forked();
	pointers();
	arguments();
	kept();
	images();
	lost();
	puts("refuses: PASS");
	return 0;
}
