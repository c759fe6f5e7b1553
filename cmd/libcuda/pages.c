#define _GNU_SOURCE
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Of Linux 5.19 and 5.14, which older headers lack.
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

// hold opens a userfaultfd that can hold writers off, or returns a negative errno. One without
// privileges does so for writes of the program itself; system calls that write for it fail with EFAULT.
static int hold(void)
{
	int u = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (u < 0 && errno == EPERM)
		u = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (u < 0)
		return -errno;
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
	if (ioctl(u, UFFDIO_API, &api)) {
		int e = errno;
		close(u);
		return -e;
	}
	return u;
}

int pvdrm_can_swap(void)
{
	int u = hold();
	if (u < 0)
		return -u;
	close(u);
	return 0;
}

// copy fills to with what lies at addr. A system call does it, for which a wrong address is an error.
static int copy(uint64_t to, uint64_t addr, uint64_t n)
{
	while (n > 0) {
		struct iovec l = {(void *)(uintptr_t)to, n}, r = {(void *)(uintptr_t)addr, n};
		ssize_t done = process_vm_readv(getpid(), &l, 1, &r, 1, 0);
		if (done <= 0)
			return done < 0 ? errno : EFAULT;
		to += (uint64_t)done, addr += (uint64_t)done, n -= (uint64_t)done;
	}
	return 0;
}

// place maps the new pages at addr, at once for all threads.
static int place(uint64_t addr, uint64_t n, int fd, uint64_t off, uint64_t to)
{
	void *p = fd >= 0 ? mmap((void *)(uintptr_t)addr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)off)
			  : mremap((void *)(uintptr_t)to, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)addr);
	return p == MAP_FAILED ? errno : 0;
}

int pvdrm_swap(uint64_t addr, uint64_t n, int fd, uint64_t off, uint64_t to)
{
	int u = hold(), e = 0;
	if (u < 0)
		return -u;
	struct uffdio_register all = {.range = {addr, n}, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect protect = {.range = {addr, n}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	if (ioctl(u, UFFDIO_REGISTER, &all)) {
		e = errno;
		close(u);
		return e;
	}
	// Pages that were never touched are not protected, unless they are there.
	if (madvise((void *)(uintptr_t)addr, n, MADV_POPULATE_READ) || ioctl(u, UFFDIO_WRITEPROTECT, &protect) || (e = copy(to, addr, n)) ||
	    (e = place(addr, n, fd, off, to))) {
		if (!e)
			e = errno;
		protect.mode = 0;
		ioctl(u, UFFDIO_WRITEPROTECT, &protect);
		ioctl(u, UFFDIO_UNREGISTER, &all.range);
	}
	ioctl(u, UFFDIO_WAKE, &all.range); // who waits looks again, and finds the new pages
	close(u);
	return e;
}

// What children copy. The lock is held from before a fork until the child has its copies.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pvdrm_range *shared, *ours;
static size_t n_shared, n_ours;
static int ends[2] = {-1, -1}; // of a pipe that the child closes when it is done

static void die(const char *why)
{
	if (write(2, why, strlen(why)) < 0)
		abort();
	abort();
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	if (n_shared > 0 && pipe2(ends, O_CLOEXEC))
		die("libcuda: fork: no descriptors for the copy of registered memory\n");
}

static void in_parent(void)
{
	if (ends[0] >= 0) {
		char c;
		close(ends[1]);
		while (read(ends[0], &c, 1) < 0 && errno == EINTR)
			;
		close(ends[0]);
		ends[0] = ends[1] = -1;
	}
	pthread_mutex_unlock(&lock);
}

// number reads digits of a base and what ends them.
static uint64_t number(const char **at, unsigned base)
{
	uint64_t v = 0;
	for (;; (*at)++) {
		unsigned c = (unsigned char)**at, d = c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : base;
		if (d >= base)
			break;
		v = v * base + d;
	}
	if (**at)
		(*at)++;
	return v;
}

// own_copy puts private memory in the place of a shared mapping.
static void own_copy(uint64_t from, uint64_t to, const char *perms)
{
	static const char what[] = "libcuda: fork: registered memory cannot be copied for the child\n";
	char *old = (char *)(uintptr_t)from, here;
	size_t n = to - from;
	char *new = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (new == MAP_FAILED || (&here >= old && &here < old + n) || (perms[0] != 'r' && mprotect(old, n, PROT_READ)))
		die(what);
	memcpy(new, old, n);
	if (mremap(new, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, old) == MAP_FAILED)
		die(what);
	int prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0);
	if (prot != (PROT_READ | PROT_WRITE) && mprotect(old, n, prot))
		die(what);
}

// copied reports whether a mapping is one that the child gets a copy of.
static int copied(uint64_t from, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < n_ours; i++)
		if (from >= ours[i].a && from < ours[i].b)
			return 0;
	for (size_t i = 0; i < n_shared; i++)
		if (shared[i].a == dev && shared[i].b == ino)
			return 1;
	return 0;
}

// mappings reads all of /proc/self/maps into memory that it maps.
static char *mappings(void)
{
	size_t room = 1 << 20, n = 0;
	char *text = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ssize_t got = 1;
	while (text != MAP_FAILED && fd >= 0 && got > 0) {
		if (n + 4096 > room) {
			text = mremap(text, room, 2 * room, MREMAP_MAYMOVE);
			room *= 2;
			continue;
		}
		got = read(fd, text + n, room - n - 1);
		n += got > 0 ? (size_t)got : 0;
	}
	if (text == MAP_FAILED || fd < 0 || got < 0)
		die("libcuda: fork: /proc/self/maps cannot be read, for the copy of registered memory\n");
	close(fd);
	return text;
}

static void in_child(void)
{
	if (ends[0] >= 0) {
		for (const char *line = mappings(), *at; *line; line = at) {
			at = line;
			uint64_t from = number(&at, 16), to = number(&at, 16);
			const char *perms = at;
			at += 5;
			number(&at, 16); // where in the file
			uint64_t major = number(&at, 16), minor = number(&at, 16), ino = number(&at, 10);
			at = strchrnul(at - 1, '\n'); // the line may end with the number
			at += *at != 0;
			if (perms[3] == 's' && copied(from, (major << 32) | minor, ino))
				own_copy(from, to, perms);
		}
		close(ends[0]);
		close(ends[1]);
		ends[0] = ends[1] = -1;
	}
	n_shared = 0; // what the child maps from now on is its own
	pthread_mutex_unlock(&lock);
}

static struct pvdrm_range *copy_of(const struct pvdrm_range *list, size_t n)
{
	struct pvdrm_range *p = malloc((n + 1) * sizeof *p);
	if (p && n)
		memcpy(p, list, n * sizeof *p);
	return p;
}

int pvdrm_children(const struct pvdrm_range *files, size_t n_files, const struct pvdrm_range *own, size_t n_own)
{
	static int registered;
	struct pvdrm_range *f = copy_of(files, n_files), *o = copy_of(own, n_own);
	int e = f && o ? 0 : ENOMEM;
	pthread_mutex_lock(&lock);
	if (!e && !registered)
		e = pthread_atfork(before_fork, in_parent, in_child);
	if (!e) {
		struct pvdrm_range *old_f = shared, *old_o = ours;
		registered = 1;
		shared = f, n_shared = n_files, ours = o, n_ours = n_own;
		f = old_f, o = old_o;
	}
	pthread_mutex_unlock(&lock);
	free(f);
	free(o);
	return e;
}
