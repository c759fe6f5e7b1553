// NVIDIA's management library as programs use it: loaded by name, its functions found one by one. It
// shows the device that CUDA shows, the memory that CUDA takes, and this process.
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

CUresult cuDeviceGetUuid(CUuuid *, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } Process;
typedef struct { unsigned gpu, memory; } Rates;

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE };

static void *library;

static int (*find(const char *name))()
{
	int (*f)() = (int (*)())dlsym(library, name);
	if (!f)
		printf("there is no %s\n", name);
	REQUIRE(f);
	return f;
}

#define NVML(name) find("nvml" name)

// own returns the memory that is charged to this process, or -1 if NVML does not list it.
static long long own(void *dev)
{
	Process all[16];
	unsigned n = 16;
	REQUIRE(NVML("DeviceGetComputeRunningProcesses_v3")(dev, &n, all) == SUCCESS);
	for (unsigned i = 0; i < n; i++)
		if (all[i].pid == (unsigned)getpid())
			return all[i].memory;
	return -1;
}

// identify compares what NVML and CUDA say of the device.
static void identify(void *dev)
{
	CUdevice device;
	CUuuid id;
	Pci pci;
	char name[96], other[96], hex[64], *at = hex;
	int version, major, minor, want[3];

	CHECK(cuDeviceGet(&device, 0));
	REQUIRE(NVML("DeviceGetName")(dev, name, 96) == SUCCESS);
	CHECK(cuDeviceGetName(other, sizeof other, device));
	REQUIRE(!strcmp(name, other));
	CHECK(cuDeviceGetUuid(&id, device));
	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (unsigned char)id.bytes[i]);
	REQUIRE(NVML("DeviceGetUUID")(dev, name, 96) == SUCCESS);
	REQUIRE(!strncmp(name, "GPU-", 4) && !strcmp(name + 4, hex));
	REQUIRE(NVML("DeviceGetUUID")(dev, name, 20) == INSUFFICIENT_SIZE);
	CHECK(cuDeviceGetPCIBusId(other, sizeof other, device));
	REQUIRE(NVML("DeviceGetPciInfo_v3")(dev, &pci) == SUCCESS);
	REQUIRE(!strcmp(pci.legacy, other) && !strcmp(pci.bus_id + 4, other));
	REQUIRE(NVML("SystemGetCudaDriverVersion_v2")(&version) == SUCCESS);
	CHECK(cuDriverGetVersion(&want[0]));
	CHECK(cuDeviceGetAttribute(&want[1], 75, device));
	CHECK(cuDeviceGetAttribute(&want[2], 76, device));
	REQUIRE(NVML("DeviceGetCudaComputeCapability")(dev, &major, &minor) == SUCCESS);
	REQUIRE(version == want[0] && major == want[1] && minor == want[2]);
}

int main(void)
{
	enum { BYTES = 16 << 20 };
	void *dev = NULL;
	unsigned n = 0;
	Memory before, after;
	Rates rates;
	CUcontext ctx;
	CUdeviceptr mem;
	char name[256];
	int status = -1;

	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library)
		printf("%s\n", dlerror());
	REQUIRE(library);
	const char *(*words)(int) = (const char *(*)(int))dlsym(library, "nvmlErrorString");
	REQUIRE(words && !strcmp(words(NOT_SUPPORTED), "Not Supported") && words(-1) == words(1000));
	REQUIRE(NVML("DeviceGetCount_v2")(&n) == UNINITIALIZED);
	REQUIRE(NVML("Init_v2")() == SUCCESS);
	REQUIRE(NVML("DeviceGetCount_v2")(&n) == SUCCESS && n == 1);
	REQUIRE(NVML("DeviceGetHandleByIndex_v2")(0, &dev) == SUCCESS);
	REQUIRE(NVML("DeviceGetHandleByIndex_v2")(1, &dev) == INVALID_ARGUMENT);
	REQUIRE(NVML("DeviceGetMemoryInfo")(dev, &before) == SUCCESS);
	REQUIRE(own(dev) == -1); // it only looks, so far

	// A child of a process that has called NVML can use both libraries, after nvmlInit of its own.
	fflush(stdout);
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		alarm(120); // a child that hangs is killed, and fails
		REQUIRE(NVML("DeviceGetCount_v2")(&n) == UNINITIALIZED);
		REQUIRE(NVML("Init_v2")() == SUCCESS);
		CHECK(cuInit(0));
		CHECK(cuCtxCreate(&ctx, 0, 0));
		CHECK(cuMemAlloc(&mem, BYTES));
		REQUIRE(own(dev) >= BYTES);
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);

	CHECK(cuInit(0));
	CHECK(cuCtxCreate(&ctx, 0, 0));
	identify(dev);
	CHECK(cuMemAlloc(&mem, BYTES));
	REQUIRE(own(dev) >= BYTES);
	REQUIRE(NVML("DeviceGetMemoryInfo")(dev, &after) == SUCCESS);
	REQUIRE(after.total == before.total && after.free + after.used == after.total && after.used >= BYTES);
	REQUIRE(NVML("DeviceGetUtilizationRates")(dev, &rates) == SUCCESS);
	REQUIRE(rates.gpu <= 100 && rates.memory <= 100);
	REQUIRE(NVML("SystemGetProcessName")(getpid(), name, 256) == SUCCESS && strstr(name, "nvml"));
	REQUIRE(NVML("DeviceGetTemperature")(dev, 0, &n) == NOT_SUPPORTED);
	REQUIRE(NVML("DeviceSetPowerManagementLimit")(dev, 1000) == NO_PERMISSION);
	REQUIRE(NVML("DeviceGetName")(&n, name, 256) == INVALID_ARGUMENT);
	REQUIRE(NVML("DeviceGetName")(dev, NULL, 256) == INVALID_ARGUMENT);
	REQUIRE(NVML("DeviceGetMemoryInfo")(dev, (void *)8) == INVALID_ARGUMENT);
	CHECK(cuMemFree(mem));
	CHECK(cuCtxDestroy(ctx));
	REQUIRE(own(dev) <= 0);
	REQUIRE(NVML("Shutdown")() == SUCCESS);
	REQUIRE(NVML("Shutdown")() == UNINITIALIZED);
	printf("nvml: PASS\n");
	return 0;
}
