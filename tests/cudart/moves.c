// Boxes between devices, batches of copies, and what is said of managed memory.
#include "runtime.h"

typedef struct { void *array; size_t pos[3]; cudaPitchedPtr at; int device; } end;
typedef struct { end from, to; cudaExtent extent; } peers;
cudaError_t cudaMemcpy3DPeer(const peers *);
cudaError_t cudaMemcpy3DPeerAsync(const peers *, cudaStream_t);
cudaError_t cudaMemRangeGetAttribute(void *, size_t, int, const void *, size_t);
cudaError_t cudaMemRangeGetAttributes(void **, size_t *, int *, size_t, const void *, size_t);
cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *, const int *, int);
cudaError_t cudaMemAdvise_v2(const void *, size_t, int, uint64_t);

#if MAJOR >= 12
typedef struct { unsigned order, from[2], to[2], flags; } attributes;
typedef struct { unsigned type; uint64_t at, row, rows, hint; } operand;
typedef struct { operand from, to; cudaExtent extent; unsigned order, flags; } box;
#if MAJOR >= 13
#define FAILED
#define FAILED_TYPE
cudaError_t cudaMemPrefetchBatchAsync(void **, size_t *, size_t, const uint64_t *, size_t *, size_t, uint64_t, cudaStream_t);
cudaError_t cudaMemDiscardBatchAsync(void **, size_t *, size_t, uint64_t, cudaStream_t);
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **, size_t *, size_t, const uint64_t *, size_t *, size_t, uint64_t, cudaStream_t);
cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned *, const int *, unsigned, int);
#else
#define FAILED &failed,
#define FAILED_TYPE size_t *,
#endif
cudaError_t cudaMemcpyBatchAsync(void **, void **, size_t *, size_t, attributes *, size_t *, size_t, FAILED_TYPE cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync(size_t, box *, FAILED_TYPE uint64_t, cudaStream_t);
#endif

static char h[4096], *d;

static void peer(cudaStream_t stream)
{
	peers p = {.from = {.at = {d, 32, 32, 4}}, .to = {.pos = {8, 1, 0}, .at = {d + 1024, 64, 64, 4}}, .extent = {16, 3, 2}};
	for (int i = 0; i < 1024; i++)
		h[i] = (char)(i * 5);
	for (int async = 0; async < 2; async++) {
		OK(cudaMemcpy(d, h, 1024, HostToDevice));
		OK(cudaMemset(d + 1024, 1, 1024));
		OK(async ? cudaMemcpy3DPeerAsync(&p, stream) : cudaMemcpy3DPeer(&p));
		OK(cudaStreamSynchronize(stream));
		OK(cudaMemcpy(h + 1024, d + 1024, 1024, DeviceToHost));
		for (int z = 0; z < 2; z++)
			for (int y = 0; y < 3; y++) {
				REQUIRE(memcmp(h + 1024 + 256 * z + 64 * (y + 1) + 8, h + 128 * z + 32 * y, 16) == 0);
				REQUIRE(h[1024 + 256 * z + 64 * (y + 1) + 7] == 1 && h[1024 + 256 * z + 64 * (y + 1) + 24] == 1);
			}
	}
	p.from.device = 1;
	GIVES(cudaErrorInvalidDevice, cudaMemcpy3DPeer(&p));
	GIVES(cudaErrorInvalidValue, cudaMemcpy3DPeer(NULL));
}

static void ranges(cudaStream_t stream)
{
	char *m;
	int v = 7, w = 7;
	void *to[2] = {&v, &w};
	size_t room[2] = {4, 4}, width = 0;
	int which[2] = {1, 2}, floats[] = {32, 0, 0, 0, 2};
	const uint64_t device = 1;
	OK(cudaMallocManaged(&m, 65536, 1));
	OK(cudaMemRangeGetAttribute(&v, 4, 2, m, 65536));
	REQUIRE(v == -2);
	OK(cudaMemAdvise_v2(m, 4096, 1, device));
	OK(cudaMemAdvise_v2(m, 4096, 3, device));
	OK(cudaMemRangeGetAttributes(to, room, which, 2, m, 4096));
	REQUIRE(v == 1 && w == 0);
	OK(cudaMemRangeGetAttribute(&v, 4, 1, m, 65536));
	REQUIRE(v == 0);
	GIVES(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&v, 2, 1, m, 4096));
	GIVES(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&v, 4, 1, d, 4096));
	OK(cudaDeviceGetTexture1DLinearMaxWidth(&width, floats, 0));
	REQUIRE(width >= 1 << 27);
#if MAJOR >= 13
	void *at[] = {m, m + 8192};
	size_t bytes[] = {4096, 4096}, begin[] = {0};
	int operation = 0;
	unsigned can = 7;
	OK(cudaMemPrefetchBatchAsync(at, bytes, 2, &device, begin, 1, 0, stream));
	OK(cudaMemRangeGetAttribute(&v, 4, 4, m + 8192, 4096));
	REQUIRE(v == 0);
	OK(cudaMemDiscardBatchAsync(at, bytes, 2, 0, stream));
	OK(cudaMemDiscardAndPrefetchBatchAsync(at, bytes, 2, &device, begin, 1, 0, stream));
	GIVES(cudaErrorInvalidValue, cudaMemDiscardBatchAsync(at, bytes, 0, 0, stream));
	OK(cudaDeviceGetHostAtomicCapabilities(&can, &operation, 1, 0));
	REQUIRE(can == 0);
#endif
	OK(cudaStreamSynchronize(stream));
	OK(cudaFree(m));
}

#if MAJOR >= 12
static void batches(cudaStream_t stream)
{
	void *to[] = {d, d + 100}, *from[] = {h, d};
	size_t bytes[] = {10, 10}, begin[] = {0};
	attributes a = {.order = 1};
	box b = {.from = {.type = 1, .at = (uintptr_t)d}, .to = {.type = 1, .at = (uintptr_t)d + 200, .row = 8, .rows = 2}, .extent = {4, 2, 2}, .order = 3};
#if MAJOR == 12
	size_t failed = 7;
#endif
	strcpy(h, "one batch");
	OK(cudaMemcpyBatchAsync(to, from, bytes, 2, &a, begin, 1, FAILED stream));
	OK(cudaMemcpy3DBatchAsync(1, &b, FAILED 0, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(h + 100, d + 100, 200, DeviceToHost));
	REQUIRE(strcmp(h + 100, "one batch") == 0);
	REQUIRE(memcmp(h + 200, "one ", 4) == 0 && memcmp(h + 208, "batc", 4) == 0 && memcmp(h + 216, "h", 2) == 0);
	bytes[1] = 0;
	GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, bytes, 2, &a, begin, 1, FAILED stream));
#if MAJOR == 12
	REQUIRE(failed == 1);
#endif
	GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, bytes, 1, &a, begin, 1, FAILED NULL));
}
#endif

int main(void)
{
	cudaStream_t stream;
	OK(cudaMalloc(&d, 4096));
	OK(cudaStreamCreate(&stream));
	peer(stream);
	ranges(stream);
#if MAJOR >= 12
	batches(stream);
#endif
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(d));
	puts("moves: PASS");
	return 0;
}
