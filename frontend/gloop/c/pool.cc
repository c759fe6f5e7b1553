// What runs allocate, and pools that keep it for the next ones. frontend/gloop/host/pool.go is the same in Go.
#include "program.h"

#include <stdlib.h>
#include <string.h>

struct gloop_pool {
	CUcontext context;
	pthread_mutex_t mu;
	gloop::Kit *kits;
};

namespace gloop {

static const size_t kPage = 4096;

static size_t textAt(const gloop_config *c) { return kPage + size_t(c->blocks) * sizeof(abi::Block); }
static size_t textBytes(const gloop_config *c) { return size_t(c->blocks) * abi::kSlots * c->path_max; }

static bool fits(const Kit *k, const gloop_config *c) { return k->blocks >= c->blocks && k->bytes >= textAt(c) + textBytes(c); }

// dispose frees a kit, which no kernel uses any more.
static void dispose(Kit *k) {
	for (unsigned i = 0; i < k->threads; i++) {
		if (k->bounces[i].bytes) cuMemFreeHost(k->bounces[i].bytes);
		if (k->bounces[i].stream) cuStreamDestroy_v2(k->bounces[i].stream);
	}
	if (k->device) cuMemFree_v2(k->device);
	if (k->granted) cuMemFreeHost(k->granted);
	if (k->stream) cuStreamDestroy_v2(k->stream);
	free(k->operations);
	free(k->waiting);
	free(k->polls);
	free(k->polled);
	free(k->words);
	free(k->bounces);
	free(k);
}

// make allocates a kit for a configuration; null with *error.
static Kit *make(const gloop_config *c, int *error, int *cuda) {
	size_t slots = size_t(c->blocks) * abi::kSlots;
	Kit *k = static_cast<Kit *>(calloc(1, sizeof(Kit)));
	*error = GLOOP_SYSTEM;
	if (!k) return nullptr;
	k->blocks = c->blocks;
	k->bytes = textAt(c) + textBytes(c);
	k->operations = static_cast<Operation *>(calloc(slots, sizeof(Operation)));
	k->waiting = static_cast<Operation **>(calloc(slots, sizeof(Operation *)));
	k->polls = static_cast<Operation **>(calloc(slots, sizeof(Operation *)));
	k->polled = static_cast<pollfd *>(calloc(slots + 1, sizeof(pollfd)));
	k->words = static_cast<u64 *>(calloc(size_t(c->blocks) * 3, sizeof(u64)));
	if (k->operations && k->waiting && k->polls && k->polled && k->words) {
		void *mem = nullptr;
		*error = GLOOP_CUDA;
		for (size_t i = 0; i < slots; i++) k->operations[i].fd = -1;
		if ((*cuda = cuStreamCreate(&k->stream, 1)) == 0 && (*cuda = cuMemHostAlloc(&mem, k->bytes, 2)) == 0) {
			k->granted = static_cast<unsigned char *>(mem);
			if ((*cuda = cuMemHostGetDevicePointer_v2(&k->base, mem, 0)) == 0 &&
			    (*cuda = cuMemAlloc_v2(&k->device, sizeof(abi::Queue) + size_t(c->blocks) * sizeof(abi::Context))) == 0)
				return k;
		}
	}
	dispose(k);
	return nullptr;
}

// find takes a kit with room out of a pool; null if there is none. One without the room makes way for that
// which is made then.
static Kit *find(gloop_pool *pool, const gloop_config *c) {
	pthread_mutex_lock(&pool->mu);
	Kit **at = &pool->kits, *small = nullptr;
	while (*at && !fits(*at, c)) at = &(*at)->next;
	Kit *k = *at;
	if (k)
		*at = k->next;
	else if ((small = pool->kits))
		pool->kits = small->next;
	pthread_mutex_unlock(&pool->mu);
	if (small) dispose(small);
	return k;
}

// widen makes places for the buffers of so many threads.
static bool widen(Kit *k, unsigned threads) {
	if (k->threads >= threads) return true;
	Bounce *more = static_cast<Bounce *>(realloc(k->bounces, threads * sizeof(Bounce)));
	if (!more) return false;
	memset(more + k->threads, 0, (threads - k->threads) * sizeof(Bounce));
	k->bounces = more;
	k->threads = threads;
	return true;
}

// reset prepares the memory for a run. It leaves alone what is written before it is read.
static int reset(Program *p, u64 logical) {
	Kit *k = p->kit;
	gloop_config *c = &p->config;
	abi::Queue queue = {};
	queue.total = logical;
	p->signal = reinterpret_cast<volatile u32 *>(k->granted);
	*p->signal = 0;
	p->blocks = reinterpret_cast<abi::Block *>(k->granted + kPage);
	p->texts = reinterpret_cast<char *>(k->granted + textAt(c));
	for (size_t b = 0; b < c->blocks; b++) {
		abi::Block *block = p->blocks + b;
		memset(&block->posted, 0, sizeof block->posted);
		memset(&block->done, 0, sizeof block->done);
		memset(&block->report, 0, sizeof block->report);
	}
	memset(k->words, 0, size_t(c->blocks) * 3 * sizeof(u64));
	p->taken = k->words;
	p->under = p->taken + c->blocks;
	p->done = p->under + c->blocks;
	// The stream of the kernel does not wait for the default one.
	if ((p->stats.cuda = cuMemcpyHtoD_v2(k->device, &queue, sizeof queue)) || (p->stats.cuda = cuCtxSynchronize())) return GLOOP_CUDA;

	abi::Launch *l = &p->launch;
	l->signal = k->base;
	l->queue = k->device;
	l->contexts = k->device + sizeof queue;
	l->blocks = k->base + kPage;
	l->texts = k->base + textAt(c);
	l->look = c->slice_ns / 4;
	l->spin = c->spin_ns;
	memcpy(l->grid, c->grid, sizeof l->grid);
	l->every = c->every;
	l->textBytes = c->path_max;
	l->version = abi::kVersion;
	return GLOOP_OK;
}

int takeKit(Program *p, u64 logical) {
	gloop_pool *pool = p->config.pool;
	if (pool && pool->context != p->context) return GLOOP_INVALID;
	int error = GLOOP_OK;
	p->kit = pool ? find(pool, &p->config) : nullptr;
	if (!p->kit) p->kit = make(&p->config, &error, &p->stats.cuda);
	if (!p->kit) return error;
	return widen(p->kit, p->config.threads) ? reset(p, logical) : GLOOP_SYSTEM;
}

void giveKit(Program *p, bool whole) {
	Kit *k = p->kit;
	gloop_pool *pool = p->config.pool;
	p->kit = nullptr;
	if (!k) return;
	if (!pool || !whole) {
		dispose(k);
		return;
	}
	pthread_mutex_lock(&pool->mu);
	k->next = pool->kits;
	pool->kits = k;
	pthread_mutex_unlock(&pool->mu);
}

} // namespace gloop

using namespace gloop;

int gloop_pool_create(gloop_pool **pool) {
	CUcontext current = nullptr;
	*pool = nullptr;
	if (cuCtxGetCurrent(&current) || !current) return GLOOP_CUDA;
	gloop_pool *made = static_cast<gloop_pool *>(calloc(1, sizeof(gloop_pool)));
	if (!made) return GLOOP_SYSTEM;
	made->context = current;
	pthread_mutex_init(&made->mu, nullptr);
	*pool = made;
	return GLOOP_OK;
}

void gloop_pool_destroy(gloop_pool *pool) {
	if (!pool) return;
	CUcontext before = nullptr;
	cuCtxGetCurrent(&before);
	cuCtxSetCurrent(pool->context);
	while (Kit *k = pool->kits) {
		pool->kits = k->next;
		dispose(k);
	}
	cuCtxSetCurrent(before);
	pthread_mutex_destroy(&pool->mu);
	free(pool);
}
