// cost prints what system calls take, trapped ones and others: the median, and the
// tenth percentile, which says more on a busy machine. Run it under pvdrm-run, and
// without it for the first rows.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "drm_core.h"
#include "pvdrm_drm.h"

enum { CALLS = 2000 };

static int drm = -1, null;
static struct drm_pvdrm_gem_new bo = {.size = 4096, .domain = PVDRM_DOMAIN_SYSTEM};

static long getppid_call(void) { return syscall(SYS_getppid); } // libc's might remember it

static long other_ioctl(void) { return ioctl(null, FIONCLEX); }

static long other_mmap(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? -1 : munmap(p, 4096);
}

static long open_to_read(void) { return close(open("/dev/null", O_RDONLY)); }

static long open_to_write(void) { return close(open("/dev/null", O_RDWR)); }

static long getparam(uint64_t name)
{
	struct drm_pvdrm_getparam p = {.param = name};
	return ioctl(drm, DRM_IOCTL_PVDRM_GETPARAM, &p);
}

static long warp_size(void) { return getparam(PVDRM_PARAM_WARP_SIZE); }

static long vram_used(void) { return getparam(PVDRM_PARAM_VRAM_USED); }

static long gem_mmap(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, bo.map_offset);
	return p == MAP_FAILED ? -1 : munmap(p, 4096);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void print(const char *name, long (*call)(void))
{
	static int64_t took[CALLS];
	for (int i = 0; i < CALLS; i++) {
		int64_t start = now();
		if (call() == -1) {
			fprintf(stderr, "cost: %s: %s\n", name, strerror(errno));
			exit(1);
		}
		took[i] = now() - start;
	}
	qsort(took, CALLS, sizeof *took, by_value);
	printf("%-44s %8.2f us, tenth %8.2f us\n", name, took[CALLS / 2] / 1e3, took[CALLS / 10] / 1e3);
}

int main(void)
{
	null = open("/dev/null", O_RDWR);
	print("getppid", getppid_call);
	print("ioctl of another type", other_ioctl);
	print("mmap and munmap of other memory", other_mmap);
	print("open and close, to read", open_to_read);
	print("open and close, to read and write", open_to_write);
	drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	if (drm < 0 || ioctl(drm, DRM_IOCTL_PVDRM_GEM_NEW, &bo)) {
		puts("no DRM file of pvdrm");
		return 0;
	}
	print("GETPARAM, which the guest answers", warp_size);
	print("GETPARAM, which the backend answers", vram_used);
	print("mmap of an object and munmap", gem_mmap);
	return 0;
}
