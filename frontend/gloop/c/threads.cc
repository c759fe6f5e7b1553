// The threads that serve requests, and the one that polls for those that wait for sockets.
#include "program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

namespace gloop {

u64 nanoseconds() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return u64(t.tv_sec) * 1000000000 + u64(t.tv_nsec);
}

// push puts an operation in the queue. mu is held.
static void push(Program *p, Operation *o) {
	o->next = nullptr;
	if (p->last)
		p->last->next = o;
	else
		p->first = o;
	p->last = o;
	pthread_cond_signal(&p->work);
}

void enqueue(Program *p, Operation *o) {
	pthread_mutex_lock(&p->mu);
	push(p, o);
	pthread_mutex_unlock(&p->mu);
}

// complete hands a result to the device: the word of the block is written last.
void complete(Program *p, Operation *o, i64 value) {
	finish(p, o);
	u64 bit = 1ull << o->slot;
	abi::Block *b = &p->blocks[o->block];
	pthread_mutex_lock(&p->mu);
	__atomic_store_n(&b->results[o->slot], value, __ATOMIC_RELEASE);
	p->under[o->block] &= ~bit;
	p->done[o->block] ^= bit;
	__atomic_store_n(&b->done, p->done[o->block], __ATOMIC_RELEASE);
	attend(p);
	p->events++;
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->mu);
}

// later lets an operation wait for its socket.
static void later(Program *p, Operation *o) {
	pthread_mutex_lock(&p->mu);
	p->kit->waiting[p->waits++] = o;
	pthread_mutex_unlock(&p->mu);
	eventfd_write(p->wake, 1);
}

static void *work(void *arg) {
	Program *p = static_cast<Program *>(arg);
	Bounce *bounce = &p->kit->bounces[__atomic_fetch_add(&p->workers, 1, __ATOMIC_RELAXED)];
	cuCtxSetCurrent(p->context);
	for (;;) {
		pthread_mutex_lock(&p->mu);
		while (!p->first && !p->over) pthread_cond_wait(&p->work, &p->mu);
		Operation *o = p->first;
		if (o && !(p->first = o->next)) p->last = nullptr;
		pthread_mutex_unlock(&p->mu);
		if (!o) break;
		i64 value = serve(p, o, bounce);
		if (value == kLater)
			later(p, o);
		else
			complete(p, o, value);
	}
	return nullptr;
}

// collect lists what the operations wait for, and returns in how many milliseconds the first is late.
// Those that need not wait any more go to the threads. mu is held.
static int collect(Program *p, pollfd *fds, Operation **of, unsigned *count) {
	u64 now = nanoseconds();
	int soonest = -1;
	unsigned kept = 0, n = 0;
	for (unsigned i = 0; i < p->waits; i++) {
		Operation *o = p->kit->waiting[i];
		if (o->deadline && now >= o->deadline) o->late = true;
		if (o->late || p->over || (o->handle && o->handle->gone)) {
			push(p, o);
			continue;
		}
		if (o->deadline) {
			u64 ms = (o->deadline - now) / 1000000 + 1;
			if (soonest < 0 || ms < u64(soonest)) soonest = int(ms < 60000 ? ms : 60000);
		}
		p->kit->waiting[kept++] = o;
		fds[n].fd = o->handle ? o->handle->fd : o->fd;
		fds[n].events = o->events;
		fds[n].revents = 0;
		of[n++] = o;
	}
	p->waits = kept;
	*count = n;
	return soonest;
}

// release gives the operations whose sockets are ready to the threads. mu is held.
static void release(Program *p, const pollfd *fds, Operation **of, unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		if (!fds[i].revents) continue;
		for (unsigned w = 0; w < p->waits; w++)
			if (p->kit->waiting[w] == of[i]) {
				p->kit->waiting[w] = p->kit->waiting[--p->waits];
				push(p, of[i]);
				break;
			}
	}
}

static void *watch(void *arg) {
	Program *p = static_cast<Program *>(arg);
	pollfd *fds = p->kit->polled;
	Operation **of = p->kit->polls;
	for (;;) {
		unsigned n = 0;
		pthread_mutex_lock(&p->mu);
		int timeout = collect(p, fds + 1, of, &n);
		bool over = p->over && p->waits == 0;
		pthread_mutex_unlock(&p->mu);
		if (over) break;
		fds[0].fd = p->wake;
		fds[0].events = POLLIN;
		poll(fds, n + 1, timeout);
		eventfd_t dropped;
		if (fds[0].revents) eventfd_read(p->wake, &dropped);
		pthread_mutex_lock(&p->mu);
		release(p, fds + 1, of, n);
		pthread_mutex_unlock(&p->mu);
	}
	return nullptr;
}

bool startThreads(Program *p) {
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->threads = static_cast<pthread_t *>(calloc(p->config.threads + 1, sizeof(pthread_t)));
	p->handles = static_cast<Handle **>(calloc(p->config.handles, sizeof(Handle *)));
	if (p->wake < 0 || !p->threads || !p->handles) return false;
	for (unsigned i = 0; i <= p->config.threads; i++) {
		if (pthread_create(&p->threads[i], nullptr, i == 0 ? watch : work, p)) return false;
		p->started++;
	}
	return true;
}

// stopThreads ends what is under way.
void stopThreads(Program *p) {
	pthread_mutex_lock(&p->mu);
	p->over = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->mu);
	if (p->wake >= 0) eventfd_write(p->wake, 1);
	for (unsigned i = 0; i < p->started; i++) pthread_join(p->threads[i], nullptr);
	if (p->wake >= 0) close(p->wake);
	free(p->threads);
}

} // namespace gloop
