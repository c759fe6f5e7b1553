// floor prints what Linux itself takes for a trapped call: this program traps its own
// child by seccomp user notification, copies 16 bytes in, asks whether the child is still
// there, copies them out, and answers, all on one processor. What pvdrm-run takes more
// is its own. It needs no GPU; run it in the machine in which cost runs.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) // Linux 5.19
#endif

enum { CALLS = 3000 };

// What is trapped: a call that nothing else here makes.
static const int trapped = SYS_getpgid;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

// program makes the calls and prints what they took.
static void program(void)
{
	static int64_t took[CALLS];
	for (uint64_t i = 0; i < CALLS; i++) {
		uint64_t arg[2] = {i, 0};
		int64_t begin = now();
		if (syscall(trapped, arg) != 0 || arg[1] != i + 1) {
			fprintf(stderr, "floor: a wrong answer\n");
			exit(1);
		}
		took[i] = now() - begin;
	}
	qsort(took, CALLS, sizeof *took, compare);
	printf("a trapped call, by Linux alone   %.2f us, tenth %.2f us\n", took[CALLS / 2] / 1e3, took[CALLS / 10] / 1e3);
}

// serve answers one call. It reports false when there will be no more.
static int serve(int listener)
{
	struct seccomp_notif call;
	memset(&call, 0, sizeof call);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
		return errno == EINTR;
	uint64_t arg[2];
	struct iovec here = {arg, sizeof arg}, there = {(void *)call.data.args[0], sizeof arg};
	if (process_vm_readv(call.pid, &here, 1, &there, 1, 0) != sizeof arg)
		fail("process_vm_readv");
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call.id))
		fail("the caller is gone");
	arg[1] = arg[0] + 1;
	if (process_vm_writev(call.pid, &here, 1, &there, 1, 0) != sizeof arg)
		fail("process_vm_writev");
	struct seccomp_notif_resp answer = {.id = call.id};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer))
		fail("answering");
	return 1;
}

int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof one, &one))
		fail("sched_setaffinity");
	// The filter is this process's, before it forks, so that the listener needs no way to
	// the parent; of the two only the child makes the call.
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, trapped, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog code = {sizeof filter / sizeof *filter, filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no new privileges");
	int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			       SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &code);
	if (listener < 0)
		fail("seccomp user notification (Linux 5.19)");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		close(listener);
		program();
		exit(0);
	}
	// Who serves would wait on when the child has ended, since others could still make
	// calls: a process of its own can be ended then.
	pid_t watcher = fork();
	if (watcher < 0)
		fail("fork");
	if (watcher == 0) { // serves, until it is ended
		while (serve(listener))
			;
		exit(1);
	}
	close(listener);
	int status;
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	kill(watcher, SIGKILL);
	waitpid(watcher, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
