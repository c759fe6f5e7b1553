// Devices and the context. The runtime API has no call that makes a context: the
// first call of a thread that needs one gives it the primary context of the
// device, unless the program has made another one current by the driver API.
#include <stdatomic.h>

#include "cudart.h"

// Reset makes the contexts of all threads stale: each compares its age.
static atomic_uint age = 1;
static __thread unsigned seen;   // the age at which this thread has looked for its context
static __thread CUcontext given; // what we made current in this thread

int initialize(void) { return cuInit(0); }

// use_primary makes the primary context current, and makes one if there is none.
static int use_primary(void)
{
	unsigned now = atomic_load(&age);
	CUcontext context = NULL;
	int r = cuDevicePrimaryCtxRetain(&context, 0);
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
	if (r) {
		int none = 0, s = store(count, &none, sizeof none);
		return s ? s : r;
	}
	return cuDeviceGetCount(count);
}

// reset destroys the primary context. Threads get a new one at their next call.
static int reset(void)
{
	int r = initialize();
	if (r)
		return r;
	r = cuDevicePrimaryCtxReset_v2(0);
	forget_managed();
	atomic_fetch_add(&age, 1);
	return r;
}

// set_device makes the primary context current, as cudaSetDevice does since CUDA 12.
static int set_device(int device)
{
	int r = check_device(device);
	return r ? r : use_primary();
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
	for (int i = 0, device, r; i < n; i++)
		if (i > 0 || (r = fetch(&device, devices, sizeof device)) || (r = check_device(device)))
			return i > 0 ? INVALID_DEVICE : r; // there is one
	return n < 0 ? INVALID_VALUE : SUCCESS;
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
	return r ? r : cuDevicePrimaryCtxSetFlags_v2(0, flags);
}

// in_primary reports whether the current context is the primary one.
int in_primary(void)
{
	CUcontext current = NULL, primary = NULL;
	unsigned flags;
	int active = 0;
	if (cuCtxGetCurrent(&current) || cuDevicePrimaryCtxGetState(0, &flags, &active) || !active ||
	    cuDevicePrimaryCtxRetain(&primary, 0))
		return 0;
	(void)cuDevicePrimaryCtxRelease_v2(0); // the one that was active stays so
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
	if ((r = cuDevicePrimaryCtxGetState(0, &flags, &active)))
		return r;
	flags |= MAP_HOST;
	return store(to, &flags, sizeof flags);
}

// A driver for which this runtime is too new does not exist: they are one.
static int driver_version(int *to)
{
	int version, r = cuDriverGetVersion(&version);
	if (r)
		return r;
	if (version < RUNTIME_VERSION)
		version = RUNTIME_VERSION;
	return store(to, &version, sizeof version);
}

static int store_int(int *to, int value) { return store(to, &value, sizeof value); }

FREE(cudaDriverGetVersion, (int *version), driver_version(version))
FREE(cudaRuntimeGetVersion, (int *version), store_int(version, RUNTIME_VERSION))
FREE(cudaGetDeviceCount, (int *count), count_devices(count))
FREE(cudaGetDevice, (int *device), store_int(device, 0))
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
