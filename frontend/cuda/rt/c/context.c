// Devices and the context. The runtime API has no call that makes a context: the
// first call of a thread that needs one gives it the primary context of the
// thread's device, unless the program has made another one current by the driver API.
#include <stdatomic.h>

#include "cudart.h"

// Reset makes the contexts of all threads stale: each compares its age.
static atomic_uint age = 1;
static __thread unsigned seen;   // the age at which this thread has looked for its context
static __thread CUcontext given; // what we made current in this thread

// The device of threads that have chosen none: the first of cudaSetValidDevices.
static atomic_int standard;
static __thread int chosen; // by this thread: its number + 1; 0 for none

int initialize(void) { return cuInit(0); }

// chosen_device is the device that the thread uses where it has no context.
static int chosen_device(void) { return chosen ? chosen - 1 : atomic_load(&standard); }

// device_count is how many devices there are, 0 before cuInit. It does not change.
static int device_count(void)
{
	static atomic_int known;
	int count = atomic_load_explicit(&known, memory_order_relaxed);
	if (!count && !cuDeviceGetCount(&count))
		atomic_store(&known, count);
	return count;
}

// is_device checks the number of a device, after cuInit.
int is_device(int device) { return device >= 0 && device < device_count() ? SUCCESS : INVALID_DEVICE; }

// device_now is the device of the current context, which may be one of the driver API.
int device_now(void)
{
	CUcontext current = NULL;
	CUdevice device;
	if (device_count() < 2 || cuCtxGetCurrent(&current) || !current || cuCtxGetDevice(&device))
		return chosen_device();
	return device;
}

static int get_device(int *to)
{
	int r = device_count() ? SUCCESS : initialize();
	int device = r ? 0 : device_now();
	return r ? r : store(to, &device, sizeof device);
}

// use_primary makes the primary context current, and makes one if there is none.
static int use_primary(void)
{
	unsigned now = atomic_load(&age);
	CUcontext context = NULL;
	int r = cuDevicePrimaryCtxRetain(&context, chosen_device());
	if (r || (r = cuCtxSetCurrent(context)))
		return r;
	given = context;
	seen = now;
	return SUCCESS;
}

// enter gives the thread a context.
int enter(void)
{
	unsigned now = atomic_load_explicit(&age, memory_order_acquire);
	if (seen == now)
		return SUCCESS;
	CUcontext current = NULL;
	int r = initialize();
	if (r || (r = cuCtxGetCurrent(&current)))
		return r;
	if (current == NULL || current == given)
		return use_primary();
	seen = now; // the program has made a context of its own current
	return SUCCESS;
}

// look_again makes the next call of the thread look for its context: the program
// has taken it away by the driver API.
void look_again(void) { seen = 0; }

static int check_device(int device)
{
	CUdevice d;
	int r = initialize();
	return r ? r : cuDeviceGet(&d, device);
}

static int count_devices(int *count)
{
	int r = initialize();
	return r ? r : cuDeviceGetCount(count); // without a device the count stays as it is, as with NVIDIA's
}

// reset destroys the primary context. Threads get a new one at their next call.
static int reset(void)
{
	int r = initialize();
	if (r)
		return r;
	r = cuDevicePrimaryCtxReset_v2(device_now());
	forget_managed();
	atomic_fetch_add(&age, 1);
	return r;
}

// set_device makes the primary context current, as cudaSetDevice does since CUDA 12.
static int set_device(int device)
{
	int r = check_device(device);
	if (r)
		return r;
	chosen = device + 1;
	return use_primary();
}

static int init_device(int device, unsigned device_flags, unsigned flags)
{
	enum { FLAGS_ARE_VALID = 1 }; // cudaInitDeviceFlagsAreValid
	if (flags & ~FLAGS_ARE_VALID)
		return INVALID_VALUE;
	int r = check_device(device);
	return r || !flags ? r : cuDevicePrimaryCtxSetFlags_v2(device, device_flags);
}

static int valid_devices(const int *devices, int n)
{
	int first = 0, r = initialize();
	if (!r && (n < 0 || n > device_count()))
		r = INVALID_VALUE;
	for (int i = 0, device; i < n && !r; i++)
		if (!(r = fetch(&device, devices + i, sizeof device)) && !(r = is_device(device)) && i == 0)
			first = device;
	if (!r)
		atomic_store(&standard, first);
	return r;
}

static int choose_device(int *device, const void *properties)
{
	int first = 0, r = check_device(first);
	if (properties == NULL)
		return INVALID_VALUE;
	return r ? r : store(device, &first, sizeof first);
}

static int set_flags(unsigned flags)
{
	int r = initialize();
	return r ? r : cuDevicePrimaryCtxSetFlags_v2(device_now(), flags);
}

// primary_of finds the primary context of a device, and makes it if there is none.
int primary_of(int device, CUcontext *context)
{
	unsigned flags;
	int active = 0;
	int r = cuDevicePrimaryCtxGetState(device, &flags, &active);
	if (r || (r = cuDevicePrimaryCtxRetain(context, device)))
		return r;
	if (active)
		(void)cuDevicePrimaryCtxRelease_v2(device); // the one that was active stays so
	return SUCCESS;
}

// in_primary reports whether the current context is the primary one of its device.
int in_primary(void)
{
	CUcontext current = NULL, primary = NULL;
	unsigned flags;
	int active = 0, device = device_now();
	if (cuCtxGetCurrent(&current) || cuDevicePrimaryCtxGetState(device, &flags, &active) || !active ||
	    cuDevicePrimaryCtxRetain(&primary, device))
		return 0;
	(void)cuDevicePrimaryCtxRelease_v2(device); // the one that was active stays so
	return current == primary;
}

// get_flags tells those of the current context if the driver API made it; others map host memory.
static int get_flags(unsigned *to)
{
	enum { MAP_HOST = 8 }; // cudaDeviceMapHost
	CUcontext current = NULL;
	unsigned flags;
	int active, r = initialize();
	if (r || (r = cuCtxGetCurrent(&current)))
		return r;
	if (current && !in_primary())
		return cuCtxGetFlags(to);
	if ((r = cuDevicePrimaryCtxGetState(device_now(), &flags, &active)))
		return r;
	flags |= MAP_HOST;
	return store(to, &flags, sizeof flags);
}

static int driver_version(int *to)
{
	int version, r = cuDriverGetVersion(&version);
	return r ? r : store(to, &version, sizeof version);
}

static int store_int(int *to, int value) { return store(to, &value, sizeof value); }

FREE(cudaDriverGetVersion, (int *version), driver_version(version))
FREE(cudaRuntimeGetVersion, (int *version), store_int(version, RUNTIME_VERSION))
FREE(cudaGetDeviceCount, (int *count), count_devices(count))
FREE(cudaGetDevice, (int *device), get_device(device))
FREE(cudaSetDevice, (int device), set_device(device))
FREE(cudaInitDevice, (int device, unsigned device_flags, unsigned flags), init_device(device, device_flags, flags))
FREE(cudaSetValidDevices, (int *devices, int n), valid_devices(devices, n))
FREE(cudaChooseDevice, (int *device, const void *properties), choose_device(device, properties))
FREE(cudaSetDeviceFlags, (unsigned flags), set_flags(flags))
FREE(cudaGetDeviceFlags, (unsigned *flags), get_flags(flags))
FREE(cudaDeviceReset, (void), reset())
FREE(cudaThreadExit, (void), reset())

API(cudaDeviceSynchronize, (void), cuCtxSynchronize())
API(cudaThreadSynchronize, (void), cuCtxSynchronize())
API(cudaDeviceSetLimit, (int limit, size_t value), cuCtxSetLimit(limit, value))
API(cudaThreadSetLimit, (int limit, size_t value), cuCtxSetLimit(limit, value))
API(cudaDeviceGetLimit, (size_t *value, int limit), cuCtxGetLimit(value, limit))
API(cudaThreadGetLimit, (size_t *value, int limit), cuCtxGetLimit(value, limit))
API(cudaDeviceSetCacheConfig, (int config), cuCtxSetCacheConfig(config))
API(cudaThreadSetCacheConfig, (int config), cuCtxSetCacheConfig(config))
API(cudaDeviceGetCacheConfig, (int *config), cuCtxGetCacheConfig(config))
API(cudaThreadGetCacheConfig, (int *config), cuCtxGetCacheConfig(config))
API(cudaDeviceSetSharedMemConfig, (int config), cuCtxSetSharedMemConfig(config))
API(cudaDeviceGetSharedMemConfig, (int *config), cuCtxGetSharedMemConfig(config))
API(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), cuCtxGetStreamPriorityRange(least, greatest))
API(cudaCtxResetPersistingL2Cache, (void), cuCtxResetPersistingL2Cache())
API(cudaProfilerStart, (void), SUCCESS)
API(cudaProfilerStop, (void), SUCCESS)
