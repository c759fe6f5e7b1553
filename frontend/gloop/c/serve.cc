// Requests: files and sockets. No call waits for a peer here; kLater is for the thread that polls.
#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gloop {

static const unsigned kFirstHandle = 3; // leaves out what programs may take for standard streams
static const u64 kMaxMove = 1 << 30;

static void lock(Program *p) { pthread_mutex_lock(&p->mu); }
static void unlock(Program *p) { pthread_mutex_unlock(&p->mu); }

static bool moves(u32 op) { return op == abi::kRead || op == abi::kWrite || op == abi::kReceive || op == abi::kSend; }

int check(const Program *p, const abi::Request *r) {
	if (r->op == 0 || r->op > abi::kSend) return ENOSYS;
	if (r->timeout > 86400ull * 1000000000 || r->port > 65535) return EINVAL;
	if (moves(r->op) && (r->size > kMaxMove || r->address + r->size < r->address)) return EINVAL;
	if (r->offset > (~0ull >> 1) - kMaxMove) return EINVAL;
	u32 flags = r->op == abi::kReceive ? u32(abi::kAll) : r->op == abi::kOpen ? 01303u : 0;
	if (r->flags & ~flags) return EINVAL;
	if (r->op != abi::kOpen) return 0;
	if ((r->flags & 3) == 3 || r->text == 0) return EINVAL;
	return r->text >= p->config.path_max ? ENAMETOOLONG : 0;
}

// add gives a number to an open descriptor, which it takes over.
static i64 add(Program *p, Kind kind, int fd) {
	if (fd < 0) return -errno;
	Handle *h = static_cast<Handle *>(calloc(1, sizeof(Handle)));
	i64 number = h ? -EMFILE : -ENOMEM;
	lock(p);
	for (unsigned i = 0; h && number < 0 && i < p->config.handles; i++)
		if (!p->handles[i]) {
			h->kind = kind;
			h->fd = fd;
			p->handles[i] = h;
			number = i + kFirstHandle;
		}
	unlock(p);
	if (number < 0) {
		close(fd);
		free(h);
	}
	return number;
}

// use finds the handle of an operation, and keeps it until finish.
static bool use(Program *p, Operation *o, Kind kind) {
	lock(p);
	if (!o->handle) {
		u32 i = o->request.handle - kFirstHandle;
		Handle *h = i < p->config.handles ? p->handles[i] : nullptr;
		if (h && h->kind == kind) {
			o->handle = h;
			h->users++;
		}
	}
	bool there = o->handle && !o->handle->gone;
	unlock(p);
	return there;
}

static void drop(Handle *h) {
	close(h->fd);
	free(h);
}

void finish(Program *p, Operation *o) {
	if (o->fd >= 0) close(o->fd);
	o->fd = -1;
	lock(p);
	Handle *h = o->handle;
	o->handle = nullptr;
	bool last = h && --h->users == 0 && h->gone;
	unlock(p);
	if (last) drop(h);
}

void closeAll(Program *p) {
	for (unsigned i = 0; i < p->config.handles; i++)
		if (p->handles[i]) drop(p->handles[i]);
}

// remove closes a handle. What waits for it ends with EBADF.
static i64 remove(Program *p, Operation *o, Kind kind) {
	if (!use(p, o, kind)) return -EBADF;
	lock(p);
	bool mine = !o->handle->gone;
	if (mine) {
		o->handle->gone = true;
		p->handles[o->request.handle - kFirstHandle] = nullptr;
	}
	unlock(p);
	if (!mine) return -EBADF;
	eventfd_write(p->wake, 1);
	return 0;
}

static i64 openFile(Program *p, Operation *o) {
	char path[4096];
	size_t n = o->request.text;
	memcpy(path, p->texts + (u64(o->block) * abi::kSlots + o->slot) * p->config.path_max, n);
	path[n] = 0;
	if (memchr(path, 0, n)) return -EINVAL;
	int fd = open(path, int(o->request.flags) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	struct stat info;
	if (fd < 0) return -errno;
	int wrong = fstat(fd, &info) ? errno : S_ISDIR(info.st_mode) ? EISDIR : S_ISREG(info.st_mode) ? 0 : EINVAL;
	if (wrong) {
		close(fd);
		return -wrong;
	}
	return add(p, kFile, fd);
}

// granted is where a buffer lies in granted memory; null if it does not.
static unsigned char *granted(const Program *p, u64 address, u64 size) {
	for (unsigned i = 0; i < p->config.memories; i++) {
		const gloop_memory *m = &p->config.memory[i];
		if (address >= m->device && address - m->device <= m->bytes && size <= m->bytes - (address - m->device))
			return static_cast<unsigned char *>(m->host) + (address - m->device);
	}
	return nullptr;
}

// ready makes the buffer of a thread.
static bool ready(Bounce *b) {
	if (!b->stream && cuStreamCreate(&b->stream, 1) != 0) return false;
	void *mem = b->bytes;
	if (!mem && cuMemHostAlloc(&mem, kBounceBytes, 0) != 0) return false;
	b->bytes = static_cast<unsigned char *>(mem);
	return true;
}

static i64 copied(CUresult r, Bounce *b) {
	if (r == 0) r = cuStreamSynchronize(b->stream);
	return r == 0 ? 0 : r == 1 ? -EFAULT : -EIO;
}

// Step moves n bytes between a buffer and a descriptor: how many, or -1 and errno.
typedef ssize_t (*Step)(const Operation *o, void *bytes, size_t n);

static ssize_t readStep(const Operation *o, void *b, size_t n) { return pread(o->handle->fd, b, n, off_t(o->request.offset + o->done)); }
static ssize_t writeStep(const Operation *o, void *b, size_t n) { return pwrite(o->handle->fd, b, n, off_t(o->request.offset + o->done)); }
static ssize_t receiveStep(const Operation *o, void *b, size_t n) { return recv(o->handle->fd, b, n, MSG_DONTWAIT); }
static ssize_t sendStep(const Operation *o, void *b, size_t n) { return send(o->handle->fd, b, n, MSG_DONTWAIT | MSG_NOSIGNAL); }

// move moves the bytes of a request until all are there, or none comes any more. once: what is there
// at once is enough.
static i64 move(Program *p, Operation *o, Bounce *b, Step step, bool in, bool once) {
	const abi::Request *r = &o->request;
	unsigned char *direct = granted(p, r->address, r->size);
	if (!direct && !ready(b)) return -ENOMEM;
	i64 wrong = 0;
	while (o->done < r->size) {
		u64 n = r->size - o->done;
		if (!direct && n > kBounceBytes) n = kBounceBytes;
		unsigned char *at = direct ? direct + o->done : b->bytes;
		if (!direct && !in && (wrong = copied(cuMemcpyDtoHAsync_v2(at, r->address + o->done, n, b->stream), b)) != 0) break;
		ssize_t got = step(o, at, n);
		if (got < 0 && errno == EINTR) continue;
		if (got < 0 && errno == EAGAIN && !o->late && !p->over) {
			o->events = in ? POLLIN : POLLOUT;
			return kLater;
		}
		if (got < 0) wrong = errno == EAGAIN ? (p->over ? -ECANCELED : -ETIMEDOUT) : -errno;
		if (got > 0 && !direct && in) wrong = copied(cuMemcpyHtoDAsync_v2(r->address + o->done, at, size_t(got), b->stream), b);
		if (got <= 0 || wrong) break;
		o->done += u64(got);
		if (once) break;
	}
	lock(p);
	(direct ? p->stats.direct : p->stats.bounced) += o->done;
	unlock(p);
	return o->done > 0 || wrong == 0 ? i64(o->done) : wrong;
}

static sockaddr_in endpoint(const abi::Request *r) {
	sockaddr_in a = {};
	a.sin_family = AF_INET;
	a.sin_port = htons(uint16_t(r->port));
	a.sin_addr.s_addr = htonl(r->ip);
	return a;
}

static i64 connectTo(Program *p, Operation *o) {
	sockaddr_in a = endpoint(&o->request);
	int wrong = 0;
	if (o->fd < 0) {
		o->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (o->fd < 0) return -errno;
		if (connect(o->fd, reinterpret_cast<sockaddr *>(&a), sizeof a)) wrong = errno;
	} else if (o->late || p->over) {
		return p->over ? -ECANCELED : -ETIMEDOUT;
	} else {
		socklen_t n = sizeof wrong;
		getsockopt(o->fd, SOL_SOCKET, SO_ERROR, &wrong, &n);
	}
	if (wrong == EINPROGRESS) {
		o->events = POLLOUT;
		return kLater;
	}
	if (wrong) return -wrong;
	int fd = o->fd;
	o->fd = -1;
	return add(p, kConnection, fd);
}

static i64 bindTo(Program *p, Operation *o) {
	sockaddr_in a = endpoint(&o->request);
	socklen_t n = sizeof a;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, reinterpret_cast<sockaddr *>(&a), n) || listen(fd, 128) || getsockname(fd, reinterpret_cast<sockaddr *>(&a), &n)) {
		int wrong = errno;
		close(fd);
		return -wrong;
	}
	i64 number = add(p, kServer, fd);
	if (number >= 0 && p->config.bound) p->config.bound(p->config.user, ntohs(a.sin_port));
	return number;
}

static i64 acceptOn(Program *p, Operation *o) {
	int fd = accept4(o->handle->fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0 || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) return add(p, kConnection, fd);
	if (o->late || p->over) return p->over ? -ECANCELED : -ETIMEDOUT;
	o->events = POLLIN;
	return kLater;
}

i64 serve(Program *p, Operation *o, Bounce *b) {
	const abi::Request *r = &o->request;
	struct stat info;
	switch (r->op) {
	case abi::kOpen: return openFile(p, o);
	case abi::kClose: return remove(p, o, kFile);
	case abi::kUnbind: return remove(p, o, kServer);
	case abi::kDisconnect: return remove(p, o, kConnection);
	case abi::kConnect: return connectTo(p, o);
	case abi::kBind: return bindTo(p, o);
	case abi::kAccept: return use(p, o, kServer) ? acceptOn(p, o) : -EBADF;
	case abi::kReceive: return use(p, o, kConnection) ? move(p, o, b, receiveStep, true, !(r->flags & abi::kAll)) : -EBADF;
	case abi::kSend: return use(p, o, kConnection) ? move(p, o, b, sendStep, false, false) : -EBADF;
	}
	if (!use(p, o, kFile)) return -EBADF;
	switch (r->op) {
	case abi::kStat: return fstat(o->handle->fd, &info) ? -errno : i64(info.st_size);
	case abi::kTruncate: return ftruncate(o->handle->fd, off_t(r->offset)) ? -errno : 0;
	case abi::kRead: return move(p, o, b, readStep, true, false);
	}
	return move(p, o, b, writeStep, false, false);
}

} // namespace gloop
