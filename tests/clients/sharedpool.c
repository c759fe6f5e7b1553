// Memory of a pool that goes to another process: the pool as a file descriptor, allocations as data.
// Both see what the other writes, the other one only frees what it imported, and nothing else is
// taken for a pool or an allocation.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "driver.h"

#include "descriptors.h"

#ifndef USE_CUDA_H
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long cuuint64_t;
typedef struct {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;
#define CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES ((CUdevice_attribute)119)
#define CU_MEMPOOL_ATTR_USED_MEM_CURRENT 7
CUresult cuMemsetD32Async(CUdeviceptr, unsigned v, size_t n, CUstream);
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *);
CUresult cuMemPoolDestroy(CUmemoryPool);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void *);
CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemPoolExportToShareableHandle(void *, CUmemoryPool, CUmemAllocationHandleType, unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long flags);
typedef struct {
	unsigned char reserved[64];
} CUmemPoolPtrExportData;
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr);
CUresult cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
#endif

enum { WORDS = 1024, BYTES = WORDS * sizeof(unsigned) };
#define ALLOWED_HANDLES ((CUpointer_attribute)14)
#define POOL_HANDLE ((CUpointer_attribute)17)
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUcontext begin(CUdevice *dev)
{
	CUcontext ctx;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, *dev));
	return ctx;
}

static CUmemoryPool pool_of(CUmemAllocationHandleType kinds)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = kinds, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	CHECK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static void holds(CUdeviceptr p, unsigned want)
{
	unsigned x[WORDS];
	CHECK(cuMemcpyDtoH(x, p, sizeof x));
	for (int i = 0; i < WORDS; i++)
		REQUIRE(x[i] == want);
}

static void fill(CUdeviceptr p, unsigned v)
{
	CHECK(cuMemsetD32(p, v, WORDS));
	CHECK(cuCtxSynchronize());
}

static CUresult import(CUmemoryPool *pool, int fd)
{
	return cuMemPoolImportFromShareableHandle(pool, (void *)(intptr_t)fd, FD, 0);
}

// nothing is imported of data that is not the library's, of other pools and of other descriptors.
// Where in its memory an allocation lies is not tried: a process that is given memory has all of it.
static void refused(CUmemoryPool pool, CUmemPoolPtrExportData good, CUmemPoolPtrExportData plain, int fd)
{
	CUdeviceptr p;
	CUmemoryPool other;
	CUmemGenericAllocationHandle h;
	enum { PLACE = 40, END = 56 };
	for (size_t at = 0; at < sizeof good; at++) {
		if (at == PLACE)
			at = END;
		CUmemPoolPtrExportData bad = good;
		bad.reserved[at] ^= 0x80;
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&p, pool, &bad));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&p, pool, &plain));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&p, pool, NULL));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&other, -1));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&other, open("/dev/null", O_RDWR)));
	EXPECT(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, FD)); // of a pool
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)fd, FD, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_NONE, 0));
}

// nothing is allocated from a pool of another process.
static void limited(CUmemoryPool pool, CUdevice dev)
{
	CUdeviceptr p;
	int fd;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&p, BYTES, pool, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(dev, pool));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	CHECK(cuMemPoolTrimTo(pool, 0));
}

static cuuint64_t used(CUmemoryPool pool)
{
	cuuint64_t n;
	CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &n));
	return n;
}

static void child(int peer)
{
	CUmemPoolPtrExportData first, second, wrong;
	CUmemoryPool pool, of;
	CUdeviceptr a, b, again;
	CUdevice dev;
	CUstream stream;
	char c = 0;
	unsigned long long kinds;
	int fd = take(peer);
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, import(&pool, fd));
	CUcontext ctx = begin(&dev);
	REQUIRE(read(peer, &first, sizeof first) == sizeof first && read(peer, &second, sizeof second) == sizeof second);
	memset(&wrong, 0, sizeof wrong);
	CHECK(import(&pool, fd));
	refused(pool, first, wrong, fd);
	limited(pool, dev);
	CHECK(cuMemPoolImportPointer(&a, pool, &first));
	CHECK(cuMemPoolImportPointer(&again, pool, &first));
	CHECK(cuMemPoolImportPointer(&b, pool, &second));
	REQUIRE(a == again && a != b && used(pool) == 2 * BYTES);
	CHECK(cuPointerGetAttribute(&of, POOL_HANDLE, a));
	CHECK(cuPointerGetAttribute(&kinds, ALLOWED_HANDLES, a));
	REQUIRE(of == pool && kinds == FD);
	holds(a, 5), holds(b, 6);
	fill(a, 7);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemsetD32Async(b, 8, WORDS, stream));
	CHECK(cuMemFreeAsync(b, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(b, stream));
	CHECK(cuMemFree(again));
	holds(a, 7); // it was imported twice
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
	REQUIRE(write(peer, &c, 1) == 1 && read(peer, &c, 1) == 0); // the parent's is gone
	holds(a, 9);
	CHECK(cuMemFree(a));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
	CHECK(import(&pool, fd));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&a, pool, &first)); // no process has it
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuCtxDestroy(ctx));
	_exit(0);
}

int main(void)
{
	CUmemPoolPtrExportData first, second;
	CUdeviceptr a, b, own;
	CUdevice dev;
	int peers[2], fd, kinds = 0, status = -1;
	char c;
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, peers));
	pid_t other = fork();
	if (other == 0) {
		REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL) && !close(peers[0])); // should the test fail, it leaves nothing
		child(peers[1]);
	}
	REQUIRE(!close(peers[1]));
	CUcontext ctx = begin(&dev);
	CHECK(cuDeviceGetAttribute(&kinds, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, dev));
	REQUIRE(kinds & FD);
	CUmemoryPool plain = pool_of(CU_MEM_HANDLE_TYPE_NONE), pool = pool_of(FD);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, plain, FD, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_NONE, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, FD, 1));
	CHECK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	CHECK(cuMemAllocFromPoolAsync(&a, BYTES, pool, NULL));
	CHECK(cuMemAllocFromPoolAsync(&b, BYTES, pool, NULL));
	CHECK(cuMemAllocFromPoolAsync(&own, BYTES, plain, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&first, own));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&first, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(NULL, a));
	fill(a, 5), fill(b, 6);
	CHECK(cuMemPoolExportPointer(&first, a));
	CHECK(cuMemPoolExportPointer(&second, b));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&own, pool, &first)); // the pool is its own
	give(peers[0], fd);
	REQUIRE(write(peers[0], &first, sizeof first) == sizeof first && write(peers[0], &second, sizeof second) == sizeof second);
	REQUIRE(!close(fd) && read(peers[0], &c, 1) == 1);
	holds(a, 7), holds(b, 8);
	fill(a, 9);
	CHECK(cuMemFreeAsync(a, NULL));
	CHECK(cuMemFreeAsync(b, NULL));
	CHECK(cuMemFreeAsync(own, NULL));
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuMemPoolDestroy(plain));
	CHECK(cuCtxDestroy(ctx));
	REQUIRE(!close(peers[0]));
	REQUIRE(waitpid(other, &status, 0) == other && status == 0);
	puts("sharedpool: PASS");
	return 0;
}
