// Behaves as programs do with their descriptors, processes and memory, on a DRM
// file that pvdrm-run serves: behave CASE, which prints "CASE: PASS" at the end.
#define _GNU_SOURCE
#include "behave.h"

static void test_errors(void)
{
	int fd = open_node(), null = open("/dev/null", O_RDWR);
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct drm_pvdrm_getparam p = {.param = PVDRM_PARAM_WARP_SIZE};
	struct drm_version v = {.name = none, .name_len = 8};
	struct drm_pvdrm_module_load m = {.source = user(none), .source_bytes = 100};
	struct drm_pvdrm_vm_bind b = {.count = 1 << 31, .ops = user(none)};
	struct drm_pvdrm_gem_new g = {.size = UINT64_MAX, .domain = PVDRM_DOMAIN_VRAM};
	struct drm_prime_handle prime = {.fd = 1000};
	char half[2 * 4096];

	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, &p) && p.value == 32);
	REFUSED(ENOTTY, ioctl(fd, _IOWR('d', 0xee, p), &p));
	REFUSED(ENOTTY, ioctl(fd, _IO('d', 0x50)));
	REFUSED(EINVAL, ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'd', PVDRM_COMMAND_BASE, 4096), half));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, NULL));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, none));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, -8L));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_VERSION, &v));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_MODULE_LOAD, &m));
	REFUSED(E2BIG, ioctl(fd, DRM_IOCTL_PVDRM_VM_BIND, &b));
	REFUSED(EINVAL, ioctl(fd, DRM_IOCTL_PVDRM_GEM_NEW, &g));
	REFUSED(EBADF, ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	REFUSED(EBADF, ioctl(1000, DRM_IOCTL_PVDRM_GETPARAM, &p));
	REFUSED(EBADF, ioctl(-1, DRM_IOCTL_PVDRM_GETPARAM, &p));
	REFUSED(ENOTTY, ioctl(null, DRM_IOCTL_PVDRM_GETPARAM, &p));

	// An argument that can be read only, and one whose second half is missing.
	char *page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page + 4096 - 8, &p, 8);
	CHECK(!munmap(page + 4096, 4096));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, page + 4096 - 8));
	memcpy(page, &p, sizeof p);
	CHECK(!mprotect(page, 4096, PROT_READ));
	REFUSED(EFAULT, ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, page));

	// A program of an older header, with a shorter struct.
	p.param = PVDRM_PARAM_WARP_SIZE, p.value = 7;
	CHECK(!ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'd', PVDRM_COMMAND_BASE, 8), &p) && p.value == 7);
	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, &p) && p.value == 32);
}

static void test_files(void)
{
	int a = open_node(), b = open_node();
	uint32_t h = new_object(a, 4096, NULL);
	CHECK(has_object(a, h));
	CHECK(!has_object(b, h) && errno == ENOENT);

	int c = dup(a), d = fcntl(a, F_DUPFD_CLOEXEC, 600);
	CHECK(has_object(c, h) && has_object(d, h));
	CHECK(!close(a) && !close(c));
	CHECK(has_object(d, h));
	CHECK(dup2(b, d) == d);
	CHECK(!has_object(d, h) && errno == ENOENT);

	// Numbers are used again, for other files and for what is no DRM file.
	for (int i = 0; i < 50; i++) {
		int e = open_node();
		CHECK(!has_object(e, h) && errno == ENOENT);
		CHECK(new_object(e, 4096, NULL) == h);
		CHECK(has_object(e, h));
		CHECK(!close(e));
		int null = open("/dev/null", O_RDWR);
		CHECK(null == e);
		CHECK(!has_object(null, h) && errno == ENOTTY);
		CHECK(!close(null));
	}
	int seen = open(node, O_RDWR);
	CHECK(fcntl(seen, F_GETFD) == 0 && fcntl(b, F_GETFD) == FD_CLOEXEC);
}

static void test_fork(void)
{
	int fd = open_node();
	uint32_t h = new_object(fd, 4096, NULL);
	pid_t pid = fork();
	if (!pid) {
		CHECK(has_object(fd, h));
		struct drm_gem_close c = {.handle = h};
		CHECK(!ioctl(fd, DRM_IOCTL_GEM_CLOSE, &c));
		int own = open_node();
		CHECK(!has_object(own, h) && errno == ENOENT);
		_exit(0);
	}
	join(pid);
	CHECK(!has_object(fd, h) && errno == ENOENT);
	CHECK(has_object(fd, new_object(fd, 8192, NULL)));
}

static void test_exec(void)
{
	char kept[12], handle[12], gone[12];
	int a = open_node(), b = open_node();
	CHECK(!fcntl(a, F_SETFD, 0));
	snprintf(kept, sizeof kept, "%d", a);
	snprintf(gone, sizeof gone, "%d", b);
	snprintf(handle, sizeof handle, "%u", new_object(a, 4096, NULL));
	new_object(b, 4096, NULL);
	pid_t pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "behave", "after-exec", kept, handle, gone, NULL);
		fail(__LINE__, "exec");
	}
	join(pid);
	CHECK(has_object(b, 1));
}

static void after_exec(char **arg)
{
	CHECK(has_object(atoi(arg[0]), atoi(arg[1])));
	CHECK(!has_object(atoi(arg[2]), 1) && errno == EBADF);
}

struct waiter {
	int fd;
	uint32_t sync;
};

static int wait_sync(int fd, uint32_t sync, int64_t deadline)
{
	struct drm_syncobj_wait w = {
		.handles = user(&sync), .count_handles = 1, .timeout_nsec = deadline, .flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT};
	return ioctl(fd, DRM_IOCTL_SYNCOBJ_WAIT, &w);
}

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;
	CHECK(!wait_sync(w->fd, w->sync, INT64_MAX));
	return NULL;
}

static void *work_thread(void *arg)
{
	int fd = open_node();
	for (int i = 1; i <= 20; i++) {
		uint64_t offset;
		uint32_t h = new_object(fd, 4096 * i, &offset);
		char *p = map(fd, offset, 4096 * i);
		CHECK(p[0] == 0);
		memset(p, i, 4096 * i);
		CHECK(!munmap(p, 4096 * i));
		struct drm_gem_close c = {.handle = h};
		CHECK(!ioctl(fd, DRM_IOCTL_GEM_CLOSE, &c));
	}
	CHECK(!close(fd));
	return arg;
}

// While some threads wait, others are served, and they end the wait.
static void test_threads(void)
{
	enum { THREADS = 8 };
	int fd = open_node();
	struct drm_syncobj_create s = {0};
	CHECK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &s));
	struct waiter w = {fd, s.handle};
	pthread_t waiting[THREADS], working[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&waiting[i], NULL, wait_thread, &w));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&working[i], NULL, work_thread, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(working[i], NULL));
	REFUSED(ETIME, wait_sync(fd, s.handle, 0));
	struct drm_syncobj_array signal = {.handles = user(&s.handle), .count_handles = 1};
	CHECK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &signal));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(waiting[i], NULL));
}

// A descriptor that lies in a socket only is open still.
static void test_passing(void)
{
	int s[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	pid_t pid = fork();
	if (!pid) {
		int fd = open_node();
		CHECK(new_object(fd, 4096, NULL) == 1);
		send_fd(s[1], fd);
		_exit(0);
	}
	join(pid);
	int other = open_node(); // what notices files that are closed would by now
	new_object(other, 4096, NULL);
	CHECK(!close(other));
	int fd = receive_fd(s[0]);
	CHECK(has_object(fd, 1));
}

// Two processes share an object by PRIME.
static void test_prime(void)
{
	enum { SIZE = 3 * 4096 };
	int s[2], fd = open_node();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	pid_t pid = fork();
	if (!pid) {
		CHECK(!close(fd));
		fd = open_node();
		struct drm_prime_handle in = {.fd = receive_fd(s[1])};
		CHECK(!ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in));
		struct drm_pvdrm_gem_info i = {.handle = in.handle};
		CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GEM_INFO, &i) && i.size >= SIZE);
		char *p = map(fd, i.map_offset, SIZE), *q = map(in.fd, 0, SIZE);
		CHECK(!strcmp(p, "from the parent") && !strcmp(q, p));
		strcpy(p + 8192, "from the child");
		_exit(0);
	}
	uint64_t offset;
	struct drm_prime_handle out = {.handle = new_object(fd, SIZE, &offset), .flags = O_CLOEXEC | O_RDWR};
	char *p = map(fd, offset, SIZE);
	strcpy(p, "from the parent");
	CHECK(!ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
	CHECK(fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
	send_fd(s[0], out.fd);
	join(pid);
	CHECK(!strcmp(p + 8192, "from the child"));
	struct drm_pvdrm_gem_new vram = {.size = 4096, .domain = PVDRM_DOMAIN_VRAM};
	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GEM_NEW, &vram));
	out.handle = vram.handle;
	REFUSED(EOPNOTSUPP, ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
}

static volatile sig_atomic_t ticks;

static void tick(int no) { ticks += no == SIGALRM; }

static void test_mmap(void)
{
	enum { SIZE = 8 * 4096 };
	int fd = open_node();
	uint64_t offset, other;
	uint32_t h = new_object(fd, SIZE, &offset);
	char *p = map(fd, offset, SIZE), *q = map(dup(fd), offset, 2 * 4096);
	p[4096] = 42;
	CHECK(q[4096] == 42);
	char *place = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mmap(place + 4096, 8192, PROT_READ, MAP_SHARED | MAP_FIXED, fd, offset) == place + 4096);
	CHECK(place[8192] == 42);

	REFUSED(EINVAL, mmap(NULL, SIZE + 1, PROT_READ, MAP_SHARED, fd, offset));
	REFUSED(EINVAL, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset + 4096));
	REFUSED(EINVAL, mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, offset));
	REFUSED(EINVAL, mmap(NULL, SIZE_MAX - 4095, PROT_READ, MAP_SHARED, fd, offset));
	REFUSED(EINVAL, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset + (UINT64_C(1) << 44)));
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 1000, offset) == MAP_FAILED && errno == EBADF);
	struct drm_pvdrm_gem_new vram = {.size = 4096, .domain = PVDRM_DOMAIN_VRAM};
	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GEM_NEW, &vram) && vram.map_offset == 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);

	// No descriptor stays behind.
	int lowest = dup(fd);
	close(lowest);
	for (int i = 0; i < 100; i++)
		CHECK(!munmap(map(fd, offset, 4096), 4096));
	CHECK(dup(fd) == lowest);

	// Signals come between, not within: the registers are the program's own.
	signal(SIGALRM, tick);
	struct itimerval every = {{0, 300}, {0, 300}};
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	for (int i = 0; i < 200 || ticks < 20; i++) {
		char *r = map(fd, offset, 8192);
		CHECK(r[4096] == 42);
		CHECK(!munmap(r, 8192));
	}
	struct itimerval never = {{0, 0}, {0, 0}};
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));

	// A mapping outlives its object, and is of nothing else.
	struct drm_gem_close c = {.handle = h};
	CHECK(!ioctl(fd, DRM_IOCTL_GEM_CLOSE, &c));
	new_object(fd, SIZE, &other);
	char *r = map(fd, other, SIZE);
	CHECK(r[4096] == 0);
	r[4096] = 1;
	CHECK(p[4096] == 42);
	CHECK(!close(fd));
	CHECK(p[4096] == 42 && (p[0] = 1));
}

// A process that is killed while it waits, or maps, takes nothing with it.
static void test_killed(void)
{
	int fd = open_node();
	struct drm_syncobj_create s = {0};
	CHECK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &s));
	for (int i = 0; i < 12; i++) {
		int ready[2];
		CHECK(!pipe(ready));
		pid_t pid = fork();
		if (!pid) {
			int own = i % 2 ? fd : open_node();
			struct drm_syncobj_create mine = {0};
			CHECK(!ioctl(own, DRM_IOCTL_SYNCOBJ_CREATE, &mine));
			CHECK(write(ready[1], "", 1) == 1);
			if (i % 3 == 2) {
				uint64_t offset;
				new_object(own, 4096, &offset);
				for (;;)
					CHECK(!munmap(map(own, offset, 4096), 4096));
			}
			wait_sync(own, mine.handle, INT64_MAX);
			_exit(9);
		}
		char byte;
		CHECK(read(ready[0], &byte, 1) == 1);
		struct timespec some = {0, i * 1000000};
		nanosleep(&some, NULL);
		CHECK(!kill(pid, SIGKILL));
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		CHECK(has_object(fd, new_object(fd, 4096, NULL)));
	}
}

enum { RACE_FDS = 6 };
static int race_fds[RACE_FDS];

// racy is whether a call on a descriptor failed as it may when another thread
// changes what that refers to. EINVAL is virtio-gpu's: the descriptor was of
// something else when the call was looked at, and Linux went on with it.
static int racy(void) { return errno == ENOTTY || errno == ENOENT || errno == EINVAL; }

// race_thread does at random what threads of one process may do to each other.
static void *race_thread(void *arg)
{
	unsigned seed = (uintptr_t)arg;
	for (int i = 0; i < 400; i++) {
		int *fd = &race_fds[rand_r(&seed) % RACE_FDS], own;
		struct drm_pvdrm_gem_new g = {.size = 4096, .domain = PVDRM_DOMAIN_SYSTEM, .handle = 0};
		switch (rand_r(&seed) % 6) {
		case 0:
			own = open_node();
			dup2(own, *fd);
			close(own);
			break;
		case 1:
			dup2(race_fds[rand_r(&seed) % RACE_FDS], *fd);
			break;
		case 2:
			own = open("/dev/null", O_RDWR);
			dup2(own, *fd);
			close(own);
			break;
		case 3:
			CHECK(!ioctl(*fd, DRM_IOCTL_PVDRM_GEM_NEW, &g) || racy());
			break;
		case 4:
			CHECK(has_object(*fd, 1 + rand_r(&seed) % 3) || racy());
			break;
		default:
			if (!ioctl(*fd, DRM_IOCTL_PVDRM_GEM_NEW, &g)) {
				char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, g.map_offset);
				if (p != MAP_FAILED)
					CHECK(p[0] == 0 && !munmap(p, 4096));
			}
		}
	}
	return NULL;
}

// Descriptors that change while they are used lead to errors, and to nothing worse.
static void test_race(void)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	for (int i = 0; i < RACE_FDS; i++)
		race_fds[i] = open_node();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, race_thread, (void *)(uintptr_t)(i + 1)));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	int fd = open_node();
	CHECK(has_object(fd, new_object(fd, 4096, NULL)));
}

// A process whose parents have ended is served still.
static void test_orphan(void)
{
	int out[2];
	CHECK(!pipe(out));
	pid_t pid = fork();
	if (!pid) {
		if (fork())
			_exit(0);
		char byte = 0;
		int fd = open_node();
		uint64_t offset;
		new_object(fd, 4096, &offset);
		map(fd, offset, 4096)[0] = 1;
		_exit(write(out[1], &byte, 1) != 1);
	}
	join(pid);
	char byte;
	CHECK(!close(out[1]) && read(out[0], &byte, 1) == 1);
}

// Calls until the backend is gone, then demands that each fails with ENODEV.
static void test_gone(void)
{
	int fd = open_node();
	struct drm_pvdrm_getparam p = {.param = PVDRM_PARAM_VRAM_USED};
	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, &p));
	puts("running");
	fflush(stdout);
	while (!ioctl(fd, DRM_IOCTL_PVDRM_GETPARAM, &p))
		;
	CHECK(errno == ENODEV);
	struct drm_pvdrm_gem_new g = {.size = 4096, .domain = PVDRM_DOMAIN_SYSTEM};
	REFUSED(ENODEV, ioctl(fd, DRM_IOCTL_PVDRM_GEM_NEW, &g));
	int other = open_node();
	REFUSED(ENODEV, ioctl(other, DRM_IOCTL_PVDRM_GETPARAM, &p));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"errors", test_errors}, {"files", test_files}, {"fork", test_fork}, {"exec", test_exec}, {"threads", test_threads},
	{"passing", test_passing}, {"prime", test_prime}, {"mmap", test_mmap}, {"killed", test_killed}, {"race", test_race},
	{"orphan", test_orphan},
	{"gone", test_gone},
};

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "after-exec")) {
		after_exec(argv + 2);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "signal"))
		return raise(atoi(argv[2]));
	for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("%s: PASS\n", argv[1]);
			return 0;
		}
	}
	fputs("behave: which case?\n", stderr);
	return 2;
}
