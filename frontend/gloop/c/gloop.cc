// The main loop: it launches the kernel until no callback is left. frontend/gloop/host is the same in Go,
// and its comments say why.
#include "program.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace gloop {

// kSignalAttribute is PVDRM's attribute of a launch: the address of the word by which the device asks
// the kernel to leave (frontend/cuda/capi). Other drivers refuse it.
static const int kSignalAttribute = 0x50564401;

static u64 orDefault(u64 v, u64 zero) { return v ? v : zero; }

// settle fills in what was left out.
static int settle(Program *p, u64 *logical) {
	gloop_config *c = &p->config;
	*logical = 1;
	for (int i = 0; i < 3; i++) {
		if (i > 0) {
			c->grid[i] = unsigned(orDefault(c->grid[i], 1));
			c->block[i] = unsigned(orDefault(c->block[i], 1));
		}
		if (__builtin_mul_overflow(*logical, c->grid[i], logical) || *logical == 0 || *logical >> 31) return GLOOP_INVALID;
	}
	int device = 0, sms = 0;
	if ((p->stats.cuda = cuCtxGetCurrent(&p->context)) || (p->stats.cuda = cuCtxGetDevice(&device)) ||
	    (p->stats.cuda = cuDeviceGetAttribute(&sms, 16, device)))
		return GLOOP_CUDA;
	if (c->blocks == 0) {
		const int kMostResident = 8; // each block has some 40 KB of device memory
		int each = 1;
		if (!c->function || c->block[0] == 0) return GLOOP_INVALID;
		if (cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, c->function, int(c->block[0] * c->block[1] * c->block[2]), c->shared))
			each = 1; // the launch says what is wrong
		c->blocks = unsigned(sms * (each < 1 ? 1 : each > kMostResident ? kMostResident : each));
	}
	if (c->blocks > *logical) c->blocks = unsigned(*logical);
	c->slice_ns = orDefault(c->slice_ns, 10000000);
	c->spin_ns = orDefault(c->spin_ns, 200000);
	c->path_max = unsigned(orDefault(c->path_max, 256));
	c->handles = unsigned(orDefault(c->handles, 1024));
	c->threads = unsigned(orDefault(c->threads, 4));
	bool odd = !c->function || c->block[0] == 0 || c->blocks > 65536 || c->path_max > 4096 || c->handles > 1 << 20 || c->threads > 256;
	return odd ? GLOOP_INVALID : GLOOP_OK;
}

// copyWords copies 64 bytes of shared memory, each word once and the first one first.
static void copyWords(void *to, const void *from) {
	u64 words[8];
	for (int i = 0; i < 8; i++) words[i] = __atomic_load_n(static_cast<const u64 *>(from) + i, __ATOMIC_ACQUIRE);
	memcpy(to, words, sizeof words);
}
static_assert(sizeof(abi::Request) == 64 && sizeof(abi::Report) == 64, "what copyWords copies");

// take starts the requests that were handed over. -1 means that the kernel broke the protocol.
static int take(Program *p) {
	int n = 0;
	for (unsigned b = 0; b < p->config.blocks; b++) {
		u64 posted = __atomic_load_n(&p->blocks[b].posted, __ATOMIC_ACQUIRE);
		pthread_mutex_lock(&p->mu);
		u64 fresh = posted ^ p->taken[b];
		bool wrong = fresh & p->under[b];
		if (!wrong) {
			p->taken[b] = posted;
			p->under[b] |= fresh;
		}
		pthread_mutex_unlock(&p->mu);
		if (wrong) {
			p->stats.block = b;
			return -1;
		}
		for (; fresh; fresh &= fresh - 1, n++) {
			unsigned i = unsigned(__builtin_ctzll(fresh));
			Operation *o = &p->kit->operations[b * abi::kSlots + i];
			memset(o, 0, sizeof *o);
			o->block = b;
			o->slot = i;
			o->fd = -1;
			copyWords(&o->request, &p->blocks[b].requests[i]);
			u64 timeout = o->request.timeout ? o->request.timeout : p->config.timeout_ns;
			if (timeout) o->deadline = nanoseconds() + timeout;
			p->stats.requests++;
			if (int no = check(p, &o->request))
				complete(p, o, -no);
			else
				enqueue(p, o);
		}
	}
	return n;
}

// report copies a block's report; false if it is not one of this launch.
static bool report(const Program *p, unsigned b, abi::Report *r) {
	copyWords(r, &p->blocks[b].report); // the sequence is in the first word, and was written last
	return r->sequence == p->launch.sequence;
}

static bool ended(Program *p, unsigned b, u64 seen) {
	pthread_mutex_lock(&p->mu);
	bool e = p->done[b] != seen;
	pthread_mutex_unlock(&p->mu);
	return e;
}

// missed reports whether an event has ended for a block that left the kernel to wait for it.
static bool missed(Program *p) {
	abi::Report r;
	for (unsigned b = 0; b < p->config.blocks; b++)
		if (report(p, b, &r) && r.state == abi::kWaiting && ended(p, b, r.seen)) return true;
	return false;
}

static bool canceled(const Program *p) { return p->config.cancel && *p->config.cancel; }

// start launches the kernel, with the signal if the driver knows it.
static CUresult start(Program *p, void **args) {
	LaunchAttribute a = {kSignalAttribute, 0, {p->launch.signal}};
	LaunchConfig c = {};
	c.grid[0] = p->config.blocks;
	c.grid[1] = c.grid[2] = 1;
	memcpy(c.block, p->config.block, sizeof c.block);
	c.shared = p->config.shared;
	c.stream = p->kit->stream;
	c.attributes = &a;
	c.count = 1;
	args[0] = &p->launch;
	CUresult r = cuLaunchKernelEx(&c, p->config.function, args, nullptr);
	if (r == 1) { // CUDA_ERROR_INVALID_VALUE: another driver's, or what is wrong without it too
		c.count = 0;
		r = cuLaunchKernelEx(&c, p->config.function, args, nullptr);
	}
	return r;
}

// pause gives the processor away between two looks. For kAttention after the last request was taken
// or has ended, in which a block asks for the next one, it does so without a nap; then it naps for a
// share of the time since.
static void pause(const Program *p) {
	const u64 kAttention = 50000, kShare = 8, kShortest = 10000, kLongest = 100000;
	u64 now = nanoseconds(), active = __atomic_load_n(&p->active, __ATOMIC_RELAXED);
	u64 quiet = now > active ? now - active : 0;
	if (quiet < kAttention) {
		sched_yield();
		return;
	}
	u64 nap = quiet / kShare;
	timespec t = {0, long(nap < kShortest ? kShortest : nap > kLongest ? kLongest : nap)};
	nanosleep(&t, nullptr);
}

static int run(Program *p, void **args) {
	*p->signal = 0;
	p->launch.sequence++;
	if ((p->stats.cuda = start(p, args))) return GLOOP_CUDA;
	u64 began = nanoseconds();
	attend(p);
	int error = GLOOP_OK;
	for (;;) {
		int state = cuStreamQuery(p->kit->stream);
		if (state != 600) { // CUDA_ERROR_NOT_READY
			p->stats.cuda = state;
			if (state) return GLOOP_CUDA;
			break;
		}
		int n = error ? 0 : take(p);
		if (n < 0) error = GLOOP_PROTOCOL;
		if (error || canceled(p) || (p->config.relaunch_ns && nanoseconds() - began >= p->config.relaunch_ns) || missed(p)) *p->signal = 1;
		if (n > 0) attend(p);
		pause(p);
	}
	p->stats.launches++;
	return error ? error : take(p) < 0 ? GLOOP_PROTOCOL : GLOOP_OK; // requests of the last moment
}

// present asks the driver whether the device is still there.
static bool present(Program *p) {
	size_t unused = 0, total = 0;
	return (p->stats.cuda = cuMemGetInfo_v2(&unused, &total)) == 0;
}

// nap waits for an event after so many, for 50 ms at most.
static void nap(Program *p, u64 before) {
	timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 50000000;
	if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
	pthread_mutex_lock(&p->mu);
	if (p->events == before) pthread_cond_timedwait(&p->ended, &p->mu, &until);
	pthread_mutex_unlock(&p->mu);
}

// wait waits until an event has ended that its block has not seen. No launch tells meanwhile that the
// device has died.
static int wait(Program *p) {
	const u64 kPulse = 1000000000;
	for (u64 asked = nanoseconds();;) {
		pthread_mutex_lock(&p->mu);
		u64 before = p->events;
		pthread_mutex_unlock(&p->mu);
		if (missed(p)) return GLOOP_OK;
		if (canceled(p)) return GLOOP_CANCELED;
		if (nanoseconds() - asked >= kPulse) {
			if (!present(p)) return GLOOP_CUDA;
			asked = nanoseconds();
		}
		nap(p, before);
	}
}

// next decides by the reports what follows a launch: GLOOP_OK with *over, or without it the next one.
static int next(Program *p, bool *over) {
	bool can = false;
	abi::Report r;
	*over = true;
	p->stats.callbacks = p->stats.looks = 0;
	for (unsigned b = 0; b < p->config.blocks; b++) {
		p->stats.block = b;
		if (!report(p, b, &r)) return GLOOP_PROTOCOL;
		p->stats.callbacks += r.callbacks;
		p->stats.looks += r.looks;
		if (r.state == abi::kDone) continue;
		if (r.state == abi::kFailed)
			return r.error == abi::kFaultSlots ? GLOOP_SLOTS : r.error == abi::kFaultCoalesced ? GLOOP_COALESCED : r.error == abi::kFaultVersion ? GLOOP_VERSION : GLOOP_PROTOCOL;
		if (r.state != abi::kSuspended && r.state != abi::kWaiting) return GLOOP_PROTOCOL;
		can |= r.state == abi::kSuspended;
		*over = false;
	}
	return *over || can ? GLOOP_OK : wait(p);
}

// end stops the threads and drops what they hold, and gives the kit back. After a call of the driver that failed it is
// of no more use.
static void end(Program *p, int error) {
	stopThreads(p);
	if (p->kit)
		for (size_t i = 0; i < size_t(p->config.blocks) * abi::kSlots; i++) finish(p, &p->kit->operations[i]);
	if (p->handles) closeAll(p);
	free(p->handles);
	giveKit(p, error != GLOOP_CUDA && error != GLOOP_SYSTEM);
}

// begin takes what the run needs.
static int begin(Program *p, const gloop_config *config) {
	u64 logical = 0;
	p->config = *config;
	p->wake = -1;
	int error = settle(p, &logical);
	if (!error) error = takeKit(p, logical);
	return error;
}

} // namespace gloop

using namespace gloop;

int gloop_run(const gloop_config *config, void **args, gloop_stats *stats) {
	Program p = {};
	bool over = false;
	pthread_mutex_init(&p.mu, nullptr);
	pthread_cond_init(&p.work, nullptr);
	pthread_cond_init(&p.ended, nullptr);
	int error = begin(&p, config);
	if (!error) error = startThreads(&p) ? GLOOP_OK : GLOOP_SYSTEM;
	while (!error && !over) {
		if (canceled(&p)) error = GLOOP_CANCELED;
		if (!error) error = run(&p, args);
		if (!error) error = next(&p, &over);
	}
	end(&p, error);
	if (stats) *stats = p.stats;
	pthread_cond_destroy(&p.ended);
	pthread_cond_destroy(&p.work);
	pthread_mutex_destroy(&p.mu);
	return error;
}

int gloop_prepare(const gloop_config *config, gloop_stats *stats) {
	Program p = {};
	int error = config->pool ? begin(&p, config) : GLOOP_INVALID;
	giveKit(&p, !error);
	if (stats) *stats = p.stats;
	return error;
}

const char *gloop_message(int error) {
	static const char *const messages[] = {
	    "no error",
	    "a call of the CUDA driver failed: gloop_stats.cuda has its result",
	    "the configuration makes no sense: a function, a grid, a block, and limits are needed",
	    "no memory or no threads are left",
	    "a block has more than 64 callbacks pending: wait for some before the next ones",
	    "threads of a block made different calls of GLoop: all must make the same ones, at the same place",
	    "the kernel includes a gloop.h of another version: compile it again",
	    "the kernel broke the protocol of GLoop's slots",
	    "the program was canceled",
	};
	return error >= 0 && size_t(error) < sizeof messages / sizeof *messages ? messages[error] : "an unknown error";
}
