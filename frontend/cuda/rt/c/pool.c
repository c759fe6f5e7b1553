// Memory pools, and allocations in the order of streams. The structures, attributes and kinds of
// locations have the same layouts and numbers in both interfaces.
#include "cudart.h"

// allocate gives no bytes a null pointer, and no error.
static int allocate(void **to, size_t bytes, CUstream stream)
{
	void *none = NULL;
	return bytes ? cuMemAllocAsync((CUdeviceptr *)to, bytes, stream) : store(to, &none, sizeof none);
}

static int allocate_from(void **to, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	void *none = NULL;
	return bytes ? cuMemAllocFromPoolAsync((CUdeviceptr *)to, bytes, pool, stream) : store(to, &none, sizeof none);
}

BOTH(cudaMallocAsync, _ptsz, (void **to, size_t bytes, CUstream stream), allocate(to, bytes, ON(stream)))
BOTH(cudaMallocFromPoolAsync, _ptsz, (void **to, size_t bytes, CUmemoryPool pool, CUstream stream), allocate_from(to, bytes, pool, ON(stream)))
BOTH(cudaFreeAsync, _ptsz, (void *p, CUstream stream), cuMemFreeAsync((CUdeviceptr)p, ON(stream)))

WITH_DEVICES(cudaDeviceGetDefaultMemPool, (CUmemoryPool *pool, int device), cuDeviceGetDefaultMemPool(pool, device))
WITH_DEVICES(cudaDeviceGetMemPool, (CUmemoryPool *pool, int device), cuDeviceGetMemPool(pool, device))
WITH_DEVICES(cudaDeviceSetMemPool, (int device, CUmemoryPool pool), cuDeviceSetMemPool(device, pool))
WITH_DEVICES(cudaDeviceGetGraphMemAttribute, (int device, int attribute, void *value), cuDeviceGetGraphMemAttribute(device, attribute, value))
WITH_DEVICES(cudaDeviceSetGraphMemAttribute, (int device, int attribute, void *value), cuDeviceSetGraphMemAttribute(device, attribute, value))
WITH_DEVICES(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))
WITH_DEVICES(cudaMemPoolCreate, (CUmemoryPool *pool, const void *properties), cuMemPoolCreate(pool, properties))
WITH_DEVICES(cudaMemPoolDestroy, (CUmemoryPool pool), cuMemPoolDestroy(pool))
WITH_DEVICES(cudaMemPoolTrimTo, (CUmemoryPool pool, size_t keep), cuMemPoolTrimTo(pool, keep))
WITH_DEVICES(cudaMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value), cuMemPoolSetAttribute(pool, attribute, value))
WITH_DEVICES(cudaMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value), cuMemPoolGetAttribute(pool, attribute, value))
WITH_DEVICES(cudaMemPoolSetAccess, (CUmemoryPool pool, const void *access, size_t count), cuMemPoolSetAccess(pool, access, count))
WITH_DEVICES(cudaMemPoolGetAccess, (int *flags, CUmemoryPool pool, void *location), cuMemPoolGetAccess(flags, pool, location))

WITH_DEVICES(cudaMemPoolExportToShareableHandle, (void *to, CUmemoryPool pool, int kind, unsigned flags), cuMemPoolExportToShareableHandle(to, pool, kind, flags))
WITH_DEVICES(cudaMemPoolImportFromShareableHandle, (CUmemoryPool *pool, void *from, int kind, unsigned flags), cuMemPoolImportFromShareableHandle(pool, from, kind, flags))
API(cudaMemPoolExportPointer, (void *to, void *p), cuMemPoolExportPointer(to, (CUdeviceptr)p))
API(cudaMemPoolImportPointer, (void **p, CUmemoryPool pool, void *from), cuMemPoolImportPointer((CUdeviceptr *)p, pool, from))

// The pools of a location, which is the device, for a kind of allocations.
static int pool_device(const void *location, int kind, int *device)
{
	enum { PINNED = 1, DEVICE = 1 }; // cudaMemAllocationType, cudaMemLocationType
	int at[2];
	int r = fetch(at, location, sizeof at);
	if (r)
		return r;
	if (kind != PINNED || at[0] != DEVICE)
		return say(NOT_SUPPORTED, "there are pools of the device's own memory only");
	*device = at[1];
	return SUCCESS;
}

static int location_pool(CUmemoryPool *pool, const void *location, int kind, CUresult (*get)(CUmemoryPool *, CUdevice))
{
	int device = 0;
	int r = pool_device(location, kind, &device);
	return r ? r : get(pool, device);
}

static int set_location_pool(const void *location, int kind, CUmemoryPool pool)
{
	int device = 0;
	int r = pool_device(location, kind, &device);
	return r ? r : cuDeviceSetMemPool(device, pool);
}

WITH_DEVICES(cudaMemGetDefaultMemPool, (CUmemoryPool *pool, void *location, int kind), location_pool(pool, location, kind, cuDeviceGetDefaultMemPool))
WITH_DEVICES(cudaMemGetMemPool, (CUmemoryPool *pool, void *location, int kind), location_pool(pool, location, kind, cuDeviceGetMemPool))
WITH_DEVICES(cudaMemSetMemPool, (void *location, int kind, CUmemoryPool pool), set_location_pool(location, kind, pool))
