// Memory: of the device, pinned, managed, and what a pointer points to.
#include "cudart.h"

// allocate is cudaMalloc: no bytes are a null pointer, and no error.
static int allocate(void **to, size_t bytes)
{
	void *none = NULL;
	return bytes ? cuMemAlloc_v2((CUdeviceptr *)to, bytes) : store(to, &none, sizeof none);
}

static int allocate_async(void **to, size_t bytes, CUstream stream)
{
	void *none = NULL;
	return bytes ? cuMemAllocAsync((CUdeviceptr *)to, bytes, stream) : store(to, &none, sizeof none);
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

API(cudaMalloc, (void **to, size_t bytes), allocate(to, bytes))
API(cudaMallocPitch, (void **to, size_t *pitch, size_t width, size_t height), allocate_pitch(to, pitch, width, height))
API(cudaMalloc3D, (struct pitched *to, struct extent e), allocate_3d(to, e))
API(cudaMallocManaged, (void **to, size_t bytes, unsigned flags), cuMemAllocManaged((CUdeviceptr *)to, bytes, flags))
API(cudaMallocHost, (void **to, size_t bytes), allocate_host(to, bytes, 0))
API(cudaHostAlloc, (void **to, size_t bytes, unsigned flags), allocate_host(to, bytes, flags))
API(cudaFree, (void *p), cuMemFree_v2((CUdeviceptr)p))
API(cudaFreeHost, (void *p), free_host(p))
API(cudaHostRegister, (void *p, size_t bytes, unsigned flags), cuMemHostRegister_v2(p, bytes, flags))
API(cudaHostUnregister, (void *p), cuMemHostUnregister(p))
API(cudaHostGetDevicePointer, (void **device, void *host, unsigned flags), cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, host, flags))
API(cudaHostGetFlags, (unsigned *flags, void *p), cuMemHostGetFlags(flags, p))
API(cudaMemGetInfo, (size_t *available, size_t *total), cuMemGetInfo_v2(available, total))
BOTH(cudaMallocAsync, _ptsz, (void **to, size_t bytes, CUstream stream), allocate_async(to, bytes, ON(stream)))
BOTH(cudaFreeAsync, _ptsz, (void *p, CUstream stream), cuMemFreeAsync((CUdeviceptr)p, ON(stream)))

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
	enum { TYPE = 2, ON_DEVICE = 3, ON_HOST = 4, IS_MANAGED = 8 }; // CUpointer_attribute
	static const int attributes[] = {TYPE, ON_DEVICE, ON_HOST, IS_MANAGED};
	int managed = 0;
	*q = (struct pointer){0};
	void *values[] = {&q->type, &q->on_device, &q->on_host, &managed};
	int r = cuPointerGetAttributes(4, attributes, values, (CUdeviceptr)p);
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
	int r = p ? pointed(&q, p) : INVALID_VALUE;
	return r ? r : store(to, &q, sizeof q);
}

API(cudaPointerGetAttributes, (struct pointer *to, const void *p), pointer_attributes(to, p))

// Managed memory is pinned memory: where it lies does not change, so advice and
// prefetches are checked, and that is all.
static int advise(const void *p)
{
	struct pointer q;
	int r = pointed(&q, p);
	if (!r && q.type != MEMORY_MANAGED)
		r = say(INVALID_VALUE, "the pointer is not to managed memory");
	return r;
}

static int prefetch(const void *p, CUstream stream)
{
	unsigned flags;
	int r = advise(p);
	return r ? r : cuStreamGetFlags(stream, &flags);
}

// A cudaMemLocation fits into one word.
API(cudaMemAdvise_v2, (const void *p, size_t bytes, int advice, uint64_t location), ((void)bytes, (void)advice, (void)location, advise(p)))
BOTH(cudaMemPrefetchAsync_v2, _ptsz, (const void *p, size_t bytes, uint64_t location, unsigned flags, CUstream stream),
     ((void)bytes, (void)location, flags ? INVALID_VALUE : prefetch(p, ON(stream))))
#if MAJOR >= 13
API(cudaMemAdvise, (const void *p, size_t bytes, int advice, uint64_t location), ((void)bytes, (void)advice, (void)location, advise(p)))
BOTH(cudaMemPrefetchAsync, _ptsz, (const void *p, size_t bytes, uint64_t location, unsigned flags, CUstream stream),
     ((void)bytes, (void)location, flags ? INVALID_VALUE : prefetch(p, ON(stream))))
#else
API(cudaMemAdvise, (const void *p, size_t bytes, int advice, int device), ((void)bytes, (void)advice, (void)device, advise(p)))
BOTH(cudaMemPrefetchAsync, _ptsz, (const void *p, size_t bytes, int device, CUstream stream),
     ((void)bytes, (void)device, prefetch(p, ON(stream))))
#endif
BOTH(cudaStreamAttachMemAsync, _ptsz, (CUstream stream, void *p, size_t bytes, unsigned flags),
     ((void)bytes, (void)flags, prefetch(p, ON(stream))))
