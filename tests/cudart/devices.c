// Every device by the runtime API: each thread has a current one, which kernels, variables, memory, streams and events
// belong to.
#include <pthread.h>

#include "kernels.h"
#include "managed.h"

enum { MOST = 8, N = 1000 };

cudaError_t cudaDeviceCanAccessPeer(int *, int, int);
cudaError_t cudaDeviceGetP2PAttribute(int *, int, int, int);
cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t);
cudaError_t cudaStreamGetDevice(cudaStream_t, int *);

static struct {
	uint32_t *numbers;
	float *floats;
	cudaStream_t stream;
	cudaEvent_t event;
} on[MOST];
static int count;

static int current(void)
{
	int device = -1;
	OK(cudaGetDevice(&device));
	return device;
}

static void all_are(const uint32_t *at, uint32_t want)
{
	static uint32_t got[N];
	OK(cudaMemcpy(got, at, sizeof got, 4));
	for (int i = 0; i < N; i++)
		REQUIRE(got[i] == want);
}

// Each device loads the program's kernels and variables for itself.
static void work(int device)
{
	cudaPointerAttributes a;
	int where = -1;
	float two_or_more = 2 + (float)device, ones[32], got[32];
	OK(cudaSetDevice(device));
	REQUIRE(current() == device);
	OK(cudaMalloc(&on[device].numbers, N * sizeof(uint32_t)));
	OK(cudaMalloc(&on[device].floats, sizeof ones));
	OK(cudaStreamCreateWithFlags(&on[device].stream, 1));
	OK(cudaEventCreateWithFlags(&on[device].event, 2));
	OK(cudaStreamGetDevice(on[device].stream, &where));
	REQUIRE(where == device);
	OK(cudaPointerGetAttributes(&a, on[device].numbers));
	REQUIRE(a.device == device);
	OK(cudaMemset(on[device].numbers, 0, N * sizeof(uint32_t)));
	OK(cudaMemcpyToSymbol(&factor, &two_or_more, sizeof factor, 0, 1));
	for (int i = 0; i < 32; i++)
		ones[i] = 1;
	OK(cudaMemcpy(on[device].floats, ones, sizeof ones, 1));
	OK(cudaDeviceSynchronize());
	LAUNCH(4, 256, 0, on[device].stream) add(on[device].numbers, 100 + (unsigned)device, N);
	LAUNCH(1, 32, 0, on[device].stream) scale(on[device].floats);
	OK(cudaGetLastError());
	OK(cudaEventRecord(on[device].event, on[device].stream));
	OK(cudaStreamSynchronize(on[device].stream));
	OK(cudaMemcpy(got, on[device].floats, sizeof got, 2));
	for (int i = 0; i < 32; i++)
		REQUIRE(got[i] == two_or_more);
}

// Managed memory is there for kernels of all devices.
static void managed(void)
{
	uint32_t *m;
	OK(cudaMallocManaged((void *)&m, N * sizeof *m, 1));
	memset(m, 0, N * sizeof *m);
	for (int i = 0; i < count; i++) {
		OK(cudaSetDevice(i));
		LAUNCH(4, 256, 0, on[i].stream) add(m, 1 + (unsigned)i, N);
		OK(cudaStreamSynchronize(on[i].stream));
	}
	for (int i = 0; i < N; i++)
		REQUIRE(m[i] == (unsigned)(count * (count + 1) / 2));
	OK(cudaFree(m));
}

// So is a __managed__ variable, while other variables are each device's own.
static void managed_variable(void)
{
	static struct fatbin image;
	static struct wrapper wrapper;
	static unsigned *counter, plain;
	unsigned of_last = 100;
	fill_fatbin(&image, &wrapper, with_managed);
	void **m = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(m, (const char *)count_up, "count", "count", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterManagedVar(m, (void **)&counter, "counter", "counter", 0, 4, 0, 0);
	__cudaRegisterVar(m, (char *)&plain, "plain", "plain", 0, 4, 0, 0);
	__cudaRegisterFatBinaryEnd(m);
	OK(cudaSetDevice(count - 1));
	OK(cudaMemcpyToSymbol(&plain, &of_last, 4, 0, 1));
	for (int i = 0; i < count; i++) {
		OK(cudaSetDevice(i));
		count_up();
		OK(cudaDeviceSynchronize());
	}
	REQUIRE(*counter == 5 + 100 + 3 * (unsigned)(count - 1));
	__cudaUnregisterFatBinary(m);
}

// The current device is the thread's own.
static void *other_thread(void *none)
{
	REQUIRE(current() == 0);
	OK(cudaSetDevice(count - 1));
	REQUIRE(current() == count - 1);
	LAUNCH(4, 256, 0, NULL) add(on[count - 1].numbers, 1, N);
	OK(cudaDeviceSynchronize());
	return none;
}

static void between(void)
{
	int can = 7;
	OK(cudaDeviceCanAccessPeer(&can, 0, 1));
	REQUIRE(can == 0);
	OK(cudaDeviceGetP2PAttribute(&can, 2, 0, 1));
	REQUIRE(can == 0);
	OK(cudaSetDevice(0));
	GIVES((cudaError_t)217, cudaDeviceEnablePeerAccess(1, 0));
	GIVES((cudaError_t)705, cudaDeviceDisablePeerAccess(1));
	GIVES((cudaError_t)101, cudaDeviceEnablePeerAccess(count, 0));
	(void)cudaGetLastError();
	OK(cudaMemset(on[0].numbers, 1, N * sizeof(uint32_t)));
	OK(cudaMemcpyPeer(on[1].numbers, 1, on[0].numbers, 0, N * sizeof(uint32_t)));
	all_are(on[1].numbers, 0x01010101);
	OK(cudaMemset(on[0].numbers, 2, N * sizeof(uint32_t)));
	OK(cudaStreamWaitEvent(on[1].stream, on[0].event, 0));
	OK(cudaMemcpyPeerAsync(on[1].numbers, 1, on[0].numbers, 0, N * sizeof(uint32_t), on[1].stream));
	OK(cudaStreamSynchronize(on[1].stream));
	all_are(on[1].numbers, 0x02020202);
	OK(cudaMemset(on[0].numbers, 3, N * sizeof(uint32_t)));
	OK(cudaMemcpy(on[1].numbers, on[0].numbers, N * sizeof(uint32_t), 4));
	all_are(on[1].numbers, 0x03030303);
	GIVES((cudaError_t)101, cudaMemcpyPeer(on[1].numbers, count, on[0].numbers, 0, 4));
	OK(cudaMemcpyPeer(on[1].numbers, count, on[0].numbers, 0, 0));

	// A stream of another device than the current one.
	LAUNCH(4, 256, 0, on[1].stream) add(on[0].numbers, 1, N);
	GIVES((cudaError_t)400, cudaGetLastError());
	GIVES((cudaError_t)400, cudaEventRecord(on[1].event, NULL));
	(void)cudaGetLastError();

	// Memory of another device ends the context of the kernel, which a reset makes new.
	LAUNCH(4, 256, 0, on[0].stream) add(on[1].numbers, 1, N);
	GIVES((cudaError_t)700, cudaDeviceSynchronize());
	OK(cudaSetDevice(1));
	all_are(on[1].numbers, 0x03030303);
	OK(cudaSetDevice(0));
	OK(cudaDeviceReset());
	REQUIRE(current() == 0);
	(void)cudaGetLastError();
	work(0);
	OK(cudaSetDevice(1));
	all_are(on[1].numbers, 0x03030303);
}

static void choices(void)
{
	int all[MOST + 1] = {count - 1}, none[] = {count};
	OK(cudaSetValidDevices(all, 1));
	GIVES((cudaError_t)101, cudaSetValidDevices(none, 1));
	GIVES((cudaError_t)1, cudaSetValidDevices(all, count + 1));
	(void)cudaGetLastError();
}

static void *chooses_none(void *none)
{
	REQUIRE(current() == count - 1);
	OK(cudaDeviceSynchronize());
	REQUIRE(current() == count - 1);
	return none;
}

static void run(void *(*what)(void *))
{
	pthread_t thread;
	REQUIRE(pthread_create(&thread, NULL, what, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

// without says what the runtime answers where there is no device, as an H100's does that is hidden.
static int without(void)
{
	const cudaError_t none = (cudaError_t)100;
	int n = -1;
	void *p;
	GIVES(none, cudaGetDeviceCount(&n));
	REQUIRE(n == -1 && cudaGetLastError() == none);
	GIVES(none, cudaMalloc(&p, 64));
	REQUIRE(cudaGetLastError() == none && cudaGetLastError() == none && cudaPeekAtLastError() == none);
	puts("no device: PASS");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "none") == 0)
		return without();
	OK(cudaGetDeviceCount(&count));
	REQUIRE(count > 0 && count <= MOST && current() == 0);
	GIVES((cudaError_t)101, cudaSetDevice(count));
	(void)cudaGetLastError();
	REQUIRE(current() == 0);
	for (int i = 0; i < count; i++) {
		cudaDeviceProp p;
		int device = -1;
		char id[32];
		OK(cudaGetDeviceProperties(&p, i));
		OK(cudaDeviceGetPCIBusId(id, sizeof id, i));
		OK(cudaDeviceGetByPCIBusId(&device, id));
		REQUIRE(device == i && p.warpSize == 32);
	}
	for (int i = 0; i < count; i++)
		work(i);
	for (int i = 0; i < count; i++)
		all_are(on[i].numbers, 100 + (unsigned)i); // whichever device is current
	run(other_thread);
	all_are(on[count - 1].numbers, 100 + (unsigned)count);
	REQUIRE(current() == count - 1);
	managed();
	managed_variable();
	if (count > 1)
		between();
	choices();
	run(chooses_none);
	printf("%d devices\ndevices: PASS\n", count);
	return 0;
}
