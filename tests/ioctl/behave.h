// What the cases of behave.c share: checks, objects, children, descriptors in messages.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drm_core.h"
#include "pvdrm_drm.h"

static const char node[] = "/dev/dri/renderD128";

static void fail(int line, const char *what)
{
	fprintf(stderr, "behave:%d: %s (errno %d, %s)\n", line, what, errno, strerror(errno));
	_exit(1);
}

// CHECK ends the process if a condition does not hold.
#define CHECK(ok) ((ok) ? (void)0 : fail(__LINE__, #ok))
// REFUSED demands that a call fails with an errno.
#define REFUSED(want, call) CHECK((errno = 0, (long)(call) == -1 && errno == (want)))

static uint64_t user(const void *p) { return (uintptr_t)p; }

static int open_node(void)
{
	int fd = open(node, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static uint32_t new_object(int fd, uint64_t size, uint64_t *offset)
{
	struct drm_pvdrm_gem_new g = {.size = size, .domain = PVDRM_DOMAIN_SYSTEM};
	CHECK(!ioctl(fd, DRM_IOCTL_PVDRM_GEM_NEW, &g));
	if (offset)
		*offset = g.map_offset;
	return g.handle;
}

static int has_object(int fd, uint32_t handle)
{
	struct drm_pvdrm_gem_info i = {.handle = handle};
	return !ioctl(fd, DRM_IOCTL_PVDRM_GEM_INFO, &i);
}

static char *map(int fd, uint64_t offset, size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	CHECK(p != MAP_FAILED);
	return p;
}

// join waits for a child and demands that it succeeded.
static void join(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void send_fd(int sock, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	CHECK(sendmsg(sock, &m, 0) == 1);
}

static int receive_fd(int sock)
{
	int fd;
	char byte, room[CMSG_SPACE(sizeof fd)];
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	CHECK(recvmsg(sock, &m, 0) == 1);
	CHECK(CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}
