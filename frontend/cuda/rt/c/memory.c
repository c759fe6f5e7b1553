// Memory: of the device, pinned, managed, and what a pointer points to.
#include "cudart.h"

// allocate is cudaMalloc: no bytes are a null pointer, and no error.
static int allocate(void **to, size_t bytes)
{
	void *none = NULL;
	return bytes ? cuMemAlloc_v2((CUdeviceptr *)to, bytes) : store(to, &none, sizeof none);
}

static int allocate_host(void **to, size_t bytes, unsigned flags)
{
	void *none = NULL;
	return bytes ? cuMemHostAlloc(to, bytes, flags) : store(to, &none, sizeof none);
}

// Rows for kernels that read 4 bytes at a time or more.
enum { ELEMENT = 4 };

static int allocate_pitch(void **to, size_t *pitch, size_t width, size_t height)
{
	void *none = NULL;
	size_t zero = 0;
	if (width && height)
		return cuMemAllocPitch_v2((CUdeviceptr *)to, pitch, width, height, ELEMENT);
	int r = store(to, &none, sizeof none);
	return r ? r : store(pitch, &zero, sizeof zero);
}

static int allocate_3d(struct pitched *to, struct extent e)
{
	struct pitched p = {.xsize = e.width, .ysize = e.height};
	size_t rows;
	if (__builtin_mul_overflow(e.height, e.depth, &rows))
		return MEMORY_ALLOCATION;
	int r = store(to, &p, sizeof p); // before there is memory that would be lost
	if (r || (r = allocate_pitch(&p.ptr, &p.pitch, e.width, rows)))
		return r;
	return store(to, &p, sizeof p);
}

static int free_host(void *p) { return p ? cuMemFreeHost(p) : SUCCESS; }

static int allocate_managed(void **to, size_t bytes, unsigned flags)
{
	void *none = NULL;
	return bytes ? cuMemAllocManaged((CUdeviceptr *)to, bytes, flags) : store(to, &none, sizeof none);
}

API(cudaMalloc, (void **to, size_t bytes), allocate(to, bytes))
API(cudaMallocPitch, (void **to, size_t *pitch, size_t width, size_t height), allocate_pitch(to, pitch, width, height))
API(cudaMalloc3D, (struct pitched *to, struct extent e), allocate_3d(to, e))
API(cudaMallocManaged, (void **to, size_t bytes, unsigned flags), allocate_managed(to, bytes, flags))
API(cudaMallocHost, (void **to, size_t bytes), allocate_host(to, bytes, 0))
API(cudaHostAlloc, (void **to, size_t bytes, unsigned flags), allocate_host(to, bytes, flags))
API(cudaFree, (void *p), cuMemFree_v2((CUdeviceptr)p))
API(cudaFreeHost, (void *p), free_host(p))
API(cudaHostRegister, (void *p, size_t bytes, unsigned flags), cuMemHostRegister_v2(p, bytes, flags))
API(cudaHostUnregister, (void *p), cuMemHostUnregister(p))
API(cudaHostGetDevicePointer, (void **device, void *host, unsigned flags), cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, host, flags))
API(cudaHostGetFlags, (unsigned *flags, void *p), cuMemHostGetFlags(flags, p))
API(cudaMemGetInfo, (size_t *available, size_t *total), cuMemGetInfo_v2(available, total))

// cudaPointerAttributes
struct pointer {
	int type; // cudaMemoryType: 1 is pinned, 2 of the device, 3 managed
	int device;
	void *on_device, *on_host;
#if MAJOR >= 13
	long reserved[8];
#endif
};

enum { MEMORY_MANAGED = 3, NO_DEVICE_ORDINAL = -2 }; // cudaMemoryTypeManaged, cudaInvalidDeviceId

static int pointed(struct pointer *q, const void *p)
{
	enum { TYPE = 2, ON_DEVICE = 3, ON_HOST = 4, IS_MANAGED = 8, ORDINAL = 9 }; // CUpointer_attribute
	static const int attributes[] = {TYPE, ON_DEVICE, ON_HOST, IS_MANAGED, ORDINAL};
	int managed = 0;
	*q = (struct pointer){0};
	void *values[] = {&q->type, &q->on_device, &q->on_host, &managed, &q->device};
	int r = cuPointerGetAttributes(5, attributes, values, (CUdeviceptr)p);
	if (r)
		return r;
	if (q->type == 0) { // memory that only the program knows of
		q->device = NO_DEVICE_ORDINAL;
		q->on_host = (void *)p;
	}
	if (managed)
		q->type = MEMORY_MANAGED;
	return SUCCESS;
}

static int pointer_attributes(struct pointer *to, const void *p)
{
	struct pointer q;
	int r = pointed(&q, p);
	return r ? r : store(to, &q, sizeof q);
}

API(cudaPointerGetAttributes, (struct pointer *to, const void *p), pointer_attributes(to, p))

// Managed memory is pinned memory: where it lies does not change, so the driver checks and notes advice
// and prefetches, and that is all. A cudaMemLocation fits into one word.
#define ADVISE(name, call, type)                                   \
	API(name, (const void *p, size_t bytes, int advice, type where), call((CUdeviceptr)p, bytes, advice, where))
#define PREFETCH(name)                                                                                         \
	BOTH(name, _ptsz, (const void *p, size_t bytes, uint64_t location, unsigned flags, CUstream stream),   \
	     cuMemPrefetchAsync_v2((CUdeviceptr)p, bytes, location, flags, ON(stream)))

ADVISE(cudaMemAdvise_v2, cuMemAdvise_v2, uint64_t)
PREFETCH(cudaMemPrefetchAsync_v2)
#if MAJOR >= 13
ADVISE(cudaMemAdvise, cuMemAdvise_v2, uint64_t)
PREFETCH(cudaMemPrefetchAsync)
#else
ADVISE(cudaMemAdvise, cuMemAdvise, int)
BOTH(cudaMemPrefetchAsync, _ptsz, (const void *p, size_t bytes, int device, CUstream stream),
     cuMemPrefetchAsync((CUdeviceptr)p, bytes, device, ON(stream)))
#endif
// What is newer than what libcuda.so.1 exports has to be asked for.
typedef CUresult prefetches(const CUdeviceptr *at, const size_t *bytes, size_t n, const uint64_t *where, const size_t *begin, size_t many, uint64_t flags, CUstream stream);
typedef CUresult discards(const CUdeviceptr *at, const size_t *bytes, size_t n, uint64_t flags, CUstream stream);

#define PREFETCHES(name, driver)                                                                                                               \
	static int name##_(const CUdeviceptr *at, const size_t *bytes, size_t n, const uint64_t *where, const size_t *begin, size_t many,      \
	                   uint64_t flags, CUstream stream)                                                                                  \
	{                                                                                                                                      \
		void *call;                                                                                                                    \
		int r = newer(driver, &call);                                                                                                  \
		return r ? r : (int)((prefetches *)call)(at, bytes, n, where, begin, many, flags, stream);                                     \
	}                                                                                                                                      \
	BOTH(name, _ptsz, (const CUdeviceptr *at, const size_t *bytes, size_t n, const uint64_t *where, const size_t *begin, size_t many,      \
	                   uint64_t flags, CUstream stream),                                                                                 \
	     name##_(at, bytes, n, where, begin, many, flags, ON(stream)))

static int discard(const CUdeviceptr *at, const size_t *bytes, size_t n, uint64_t flags, CUstream stream)
{
	void *call;
	int r = newer("cuMemDiscardBatchAsync", &call);
	return r ? r : (int)((discards *)call)(at, bytes, n, flags, stream);
}

PREFETCHES(cudaMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync")
PREFETCHES(cudaMemDiscardAndPrefetchBatchAsync, "cuMemDiscardAndPrefetchBatchAsync")
BOTH(cudaMemDiscardBatchAsync, _ptsz, (const CUdeviceptr *at, const size_t *bytes, size_t n, uint64_t flags, CUstream stream),
     discard(at, bytes, n, flags, ON(stream)))
API(cudaMemRangeGetAttribute, (void *to, size_t room, int attribute, const void *p, size_t bytes),
    cuMemRangeGetAttribute(to, room, attribute, (CUdeviceptr)p, bytes))
API(cudaMemRangeGetAttributes, (void **to, size_t *room, int *attributes, size_t n, const void *p, size_t bytes),
    cuMemRangeGetAttributes(to, room, attributes, n, (CUdeviceptr)p, bytes))
BOTH(cudaStreamAttachMemAsync, _ptsz, (CUstream stream, void *p, size_t bytes, unsigned flags),
     cuStreamAttachMemAsync(ON(stream), (CUdeviceptr)p, bytes, flags))
