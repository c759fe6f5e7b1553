// Memory of cuMemCreate that goes to another process as a file descriptor: both see what the other
// writes, it outlives the process that made it and all contexts, and no other descriptor is taken for
// one. None of it needs a context.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "driver.h"

#include "descriptors.h"

#ifndef USE_CUDA_H
CUresult cuMemExportToShareableHandle(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long flags);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *, void *);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
#endif

enum { WORDS = 1024 };
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const CUmemAllocationProp shared = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = FD, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static CUcontext begin(void)
{
	CUcontext ctx;
	CUdevice dev;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	return ctx;
}

static size_t granularity(void)
{
	size_t n;
	CHECK(cuMemGetAllocationGranularity(&n, &shared, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return n;
}

static CUdeviceptr map(CUmemGenericAllocationHandle h, size_t n)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr p;
	CHECK(cuMemAddressReserve(&p, n, 0, 0, 0));
	CHECK(cuMemMap(p, n, 0, h, 0));
	CHECK(cuMemSetAccess(p, n, &access, 1));
	return p;
}

static void unmap(CUdeviceptr p, size_t n)
{
	CHECK(cuMemUnmap(p, n));
	CHECK(cuMemAddressFree(p, n));
}

static void holds(CUdeviceptr p, unsigned want)
{
	unsigned x[WORDS];
	CHECK(cuMemcpyDtoH(x, p, sizeof x));
	for (int i = 0; i < WORDS; i++)
		REQUIRE(x[i] == want);
}

static CUresult import(CUmemGenericAllocationHandle *h, int fd)
{
	return cuMemImportFromShareableHandle(h, (void *)(intptr_t)fd, FD);
}

// forged makes a sealed descriptor with other bytes than one of the library.
static int forged(const char *b, size_t n, int seals)
{
	int fd = memfd_create("forged", MFD_ALLOW_SEALING);
	REQUIRE(fd >= 0 && write(fd, b, n) == (ssize_t)n && (!seals || !fcntl(fd, F_ADD_SEALS, seals)));
	return fd;
}

// nothing is imported of descriptors that are none of the library's, and of none.
static void refused(int fd)
{
	enum { SEALED = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, KEY = 8, OWN = 24, BYTES = 64 };
	CUmemGenericAllocationHandle h;
	char good[BYTES + 1] = {0};
	int pipes[2], zero = open("/dev/zero", O_RDWR);
	REQUIRE(pread(fd, good, sizeof good, 0) == BYTES && !pipe(pipes) && zero >= 0);
	REQUIRE(pwrite(fd, good, 1, 0) < 0 && ftruncate(fd, 0) && ftruncate(fd, 4096));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, -1));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, 9999));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, zero));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, pipes[0])); // which it must not wait for
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_NONE));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, 2));
	for (int at = 0; at < BYTES; at++) {
		char bad[BYTES];
		memcpy(bad, good, sizeof bad);
		bad[at] ^= 1;
		int x = forged(bad, sizeof bad, SEALED);
		EXPECT(at >= KEY && at < OWN ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNKNOWN, import(&h, x));
		close(x);
	}
	int open = forged(good, BYTES, 0), longer = forged(good, BYTES + 1, SEALED), shorter = forged(good, BYTES - 1, SEALED);
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, open));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, longer));
	EXPECT(CUDA_ERROR_UNKNOWN, import(&h, shorter));
	close(open), close(longer), close(shorter), close(zero), close(pipes[0]), close(pipes[1]);
}

static void child(int peer)
{
	CUmemGenericAllocationHandle h, again;
	CUmemAllocationProp prop;
	CUdeviceptr p, q;
	char c = 0;
	int fd = take(peer);
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, import(&h, fd));
	CHECK(cuInit(0));
	CHECK(import(&h, fd));
	CUcontext ctx = begin();
	size_t n = granularity();
	CHECK(import(&again, fd));
	CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, h));
	REQUIRE(!memcmp(&prop, &shared, sizeof prop));
	refused(fd);
	p = map(h, 2 * n), q = map(again, n);
	holds(p, 5);
	CHECK(cuMemsetD32(q, 6, WORDS));
	CHECK(cuCtxSynchronize());
	holds(p, 6);
	REQUIRE(write(peer, &c, 1) == 1 && read(peer, &c, 1) == 0); // the parent's is gone
	holds(p, 7);
	CHECK(cuMemRelease(again));
	unmap(q, n);
	CUcontext other = begin(); // in which it is mapped, too
	holds(p, 7);
	CHECK(cuMemsetD32(p, 8, WORDS));
	CHECK(cuCtxDestroy(ctx));
	CHECK(cuCtxDestroy(other));
	ctx = begin();
	holds(p, 8);
	CHECK(cuCtxDestroy(ctx));
	unmap(p, 2 * n);
	CHECK(cuMemExportToShareableHandle(&fd, h, FD, 0));
	CHECK(cuMemRelease(h));
	EXPECT(CUDA_ERROR_INVALID_VALUE, import(&h, fd)); // no process has it any more
	_exit(0);
}

int main(void)
{
	CUmemGenericAllocationHandle h, own, again;
	int peers[2], fd, status = -1;
	char c;
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, peers));
	pid_t other = fork();
	if (other == 0) {
		REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL) && !close(peers[0])); // should the test fail, it leaves nothing
		child(peers[1]);
	}
	REQUIRE(!close(peers[1]));
	CHECK(cuInit(0));
	size_t n = granularity();
	CHECK(cuMemCreate(&h, n, &plain, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, h, FD, 0));
	CHECK(cuMemRelease(h));
	CHECK(cuMemCreate(&h, 2 * n, &shared, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_NONE, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, h, FD, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(NULL, h, FD, 0));
	CHECK(cuMemExportToShareableHandle(&fd, h, FD, 0));
	CHECK(import(&own, fd));
	CUcontext ctx = begin();
	CUdeviceptr p = map(h, 2 * n), q = map(own, n);
	CHECK(cuMemRetainAllocationHandle(&again, (void *)(p + n + 1)));
	REQUIRE(again == h);
	CHECK(cuMemRelease(again));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&again, &again));
	CHECK(cuMemsetD32(p, 5, WORDS));
	CHECK(cuCtxSynchronize());
	holds(q, 5);
	give(peers[0], fd);
	REQUIRE(!close(fd) && read(peers[0], &c, 1) == 1);
	holds(p, 6);
	CHECK(cuMemsetD32(p, 7, WORDS));
	CHECK(cuCtxSynchronize());
	unmap(q, n);
	unmap(p, 2 * n);
	CHECK(cuMemRelease(own));
	CHECK(cuMemRelease(h));
	CHECK(cuCtxDestroy(ctx));
	REQUIRE(!close(peers[0]));
	REQUIRE(waitpid(other, &status, 0) == other && status == 0);
	puts("shareable: PASS");
	return 0;
}
