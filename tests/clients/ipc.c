// Memory and events of other processes: kernels of two processes take turns by events alone, memory
// and events outlive the process that made them, and handles that no process gave name nothing.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

// Each thread computes for a while, then makes x[i] a * x[i] + b.
static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 a, .param .u32 b, .param .u32 n)\n"
	"{\n.reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %rd<3>;\n"
	"ld.param.u64 %rd0, [p];\nld.param.u32 %r0, [a];\nld.param.u32 %r1, [b];\nld.param.u32 %r2, [n];\n"
	"mov.u32 %r3, %tid.x;\nmul.wide.u32 %rd1, %r3, 4;\nadd.s64 %rd0, %rd0, %rd1;\n"
	"LOOP:\nsub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p, %r2, 0;\n@%p bra LOOP;\n"
	"ld.global.u32 %r4, [%rd0];\nmad.lo.u32 %r4, %r4, %r0, %r1;\nst.global.u32 [%rd0], %r4;\nret;\n}\n";

enum { THREADS = 64, ROUNDS = 12, OPENS = 10000, INTERPROCESS = 4 | 2, LAZY = 1 };

static int toChild[2], toParent[2];

static void give(int fd, const void *p, size_t n) { REQUIRE(write(fd, p, n) == (ssize_t)n); }
static void take(int fd, void *p, size_t n) { REQUIRE(read(fd, p, n) == (ssize_t)n); }

// device is a context with the kernel and a stream that waits for no other.
struct device {
	CUcontext ctx;
	CUfunction step;
	CUstream stream;
};

static struct device begin(void)
{
	struct device d;
	CUdevice dev;
	CUmodule mod;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&d.ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&d.step, mod, "step"));
	CHECK(cuStreamCreate(&d.stream, CU_STREAM_NON_BLOCKING));
	return d;
}

static void step(struct device *d, CUdeviceptr p, unsigned a, unsigned b)
{
	unsigned n = 20000;
	void *args[] = {&p, &a, &b, &n};
	CHECK(cuLaunchKernel(d->step, 1, 1, 1, THREADS, 1, 1, 0, d->stream, args, NULL));
}

static void holds(CUdeviceptr p, unsigned want)
{
	unsigned x[THREADS];
	CHECK(cuMemcpyDtoH(x, p, sizeof x));
	for (int i = 0; i < THREADS; i++)
		REQUIRE(x[i] == want);
}

struct message {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

#ifndef USE_CUDA_H
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, unsigned value, unsigned flags); // 0: the word is value or greater
#endif

// lead and follow are the sides of a game in which the kernels of two processes take turns. What
// the leader queues is held back until the follower has queued its turn, which must come after it
// by the event alone.
static void lead(struct device *d, CUdeviceptr p, CUevent own, CUevent other, int to, int from, unsigned a, unsigned b)
{
	volatile unsigned *go;
	CUdeviceptr word;
	char c = 0;
	CHECK(cuMemAllocHost((void **)&go, sizeof *go));
	*go = 0;
	CHECK(cuMemHostGetDevicePointer(&word, (void *)go, 0));
	for (unsigned i = 1; i <= ROUNDS; i++) {
		if (i > 1)
			CHECK(cuStreamWaitEvent(d->stream, other, 0));
		CHECK(cuStreamWaitValue32_v2(d->stream, word, i, 0));
		step(d, p, a, b);
		CHECK(cuEventRecord(own, d->stream));
		give(to, &c, 1);
		take(from, &c, 1);
		*go = i;
	}
	CHECK(cuStreamSynchronize(d->stream));
	CHECK(cuMemFreeHost((void *)go));
}

static void follow(struct device *d, CUdeviceptr p, CUevent own, CUevent other, int to, int from, unsigned a, unsigned b)
{
	char c = 0;
	for (int i = 0; i < ROUNDS; i++) {
		take(from, &c, 1);
		CHECK(cuStreamWaitEvent(d->stream, other, 0));
		step(d, p, a, b);
		CHECK(cuEventRecord(own, d->stream));
		EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(d->stream));
		give(to, &c, 1);
	}
	CHECK(cuEventSynchronize(own));
}

static void child(void)
{
	struct device d = begin();
	struct message m, mine;
	CUdeviceptr p, q;
	CUevent theirs, own;
	char c = 0;
	take(toChild[0], &m, sizeof m);
	CHECK(cuIpcOpenMemHandle(&p, m.memory, LAZY));
	CHECK(cuIpcOpenEventHandle(&theirs, m.event));
	CHECK(cuEventCreate(&own, INTERPROCESS));
	CHECK(cuIpcGetEventHandle(&mine.event, own));
	give(toParent[1], &mine, sizeof mine);
	follow(&d, p, own, theirs, toParent[1], toChild[0], 5, 9);
	lead(&d, p, own, theirs, toParent[1], toChild[0], 7, 3);

	for (int i = 1; i < OPENS; i++) {
		CHECK(cuIpcOpenMemHandle(&q, m.memory, LAZY));
		REQUIRE(q == p);
	}
	for (size_t i = 0; i < 8 * sizeof m.memory; i++) {
		struct message forged = m;
		if (i / 8 >= 8 && i / 8 < 24) { // what is random
			forged.memory.reserved[i / 8] ^= (char)(1 << i % 8);
			forged.event.reserved[i / 8] ^= (char)(1 << i % 8);
			EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&q, forged.memory, LAZY));
			REQUIRE(cuIpcOpenEventHandle(&own, forged.event) != CUDA_SUCCESS);
		}
	}
	// The handle's place and size are checked, whatever they say.
	for (int at = 24; at < 40; at++) {
		struct message forged = m;
		forged.memory.reserved[at] = (char)0xff;
		if (cuIpcOpenMemHandle(&q, forged.memory, LAZY) == CUDA_SUCCESS)
			CHECK(cuIpcCloseMemHandle(q));
	}
	give(toParent[1], &c, 1);
	take(toChild[0], &c, 1); // the parent's child, whose memory this is too, was killed
	take(toChild[0], &m, sizeof m);
	for (int i = 0; i < OPENS; i++)
		CHECK(cuIpcCloseMemHandle(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&q, m.memory, LAZY));
	CHECK(cuCtxDestroy(d.ctx));
	_exit(0);
}

// victim makes memory and an event, and is killed while its work goes on.
static void victim(int to)
{
	struct device d = begin();
	struct message m;
	CUdeviceptr p;
	CUevent e;
	CHECK(cuMemAlloc(&p, 8 << 20));
	CHECK(cuMemsetD32(p, 7, (8 << 20) / 4));
	CHECK(cuCtxSynchronize());
	CHECK(cuEventCreate(&e, INTERPROCESS));
	CHECK(cuIpcGetMemHandle(&m.memory, p));
	CHECK(cuIpcGetEventHandle(&m.event, e));
	for (int i = 0; i < 20; i++)
		step(&d, p + (4 << 20), 3, 1);
	CHECK(cuEventRecord(e, d.stream));
	give(to, &m, sizeof m);
	for (;;)
		pause();
}

// outlived uses what another process made, which is killed meanwhile.
static void outlived(struct device *d, pid_t maker, int from, struct message *gone)
{
	int status;
	CUdeviceptr p;
	CUevent e;
	take(from, gone, sizeof *gone);
	CHECK(cuIpcOpenMemHandle(&p, gone->memory, LAZY));
	CHECK(cuIpcOpenEventHandle(&e, gone->event));
	CHECK(cuStreamWaitEvent(d->stream, e, 0));
	REQUIRE(!kill(maker, SIGKILL) && waitpid(maker, &status, 0) == maker);
	CHECK(cuStreamSynchronize(d->stream)); // it waits for no other process any more
	CHECK(cuEventSynchronize(e));
	holds(p, 7);
	step(d, p, 2, 1);
	CHECK(cuStreamSynchronize(d->stream));
	holds(p, 15);
	CHECK(cuIpcCloseMemHandle(p));
	CHECK(cuEventDestroy(e));
}

int main(void)
{
	struct message m, other, gone;
	int fromVictim[2], status = -1;
	CUdeviceptr p, q;
	CUevent own, theirs;
	unsigned want = 1;
	char c = 0;
	REQUIRE(!pipe(toChild) && !pipe(toParent) && !pipe(fromVictim));
	pid_t one = fork();
	if (one == 0) {
		REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL)); // should the test fail, it leaves nothing
		child();
	}
	pid_t two = fork();
	if (two == 0) {
		REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		victim(fromVictim[1]);
	}

	struct device d = begin();
	CHECK(cuMemAlloc(&p, 3 * sizeof(unsigned) * THREADS));
	q = p + sizeof(unsigned) * THREADS; // the neighbours must stay as they are
	CHECK(cuMemsetD32(p, 1, 3 * THREADS));
	CHECK(cuCtxSynchronize());
	CHECK(cuEventCreate(&own, INTERPROCESS));
	CHECK(cuIpcGetMemHandle(&m.memory, p));
	CHECK(cuIpcGetEventHandle(&m.event, own));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&p, m.memory, LAZY));
	give(toChild[1], &m, sizeof m);
	take(toParent[0], &other, sizeof other);
	CHECK(cuIpcOpenEventHandle(&theirs, other.event));
	lead(&d, p, own, theirs, toChild[1], toParent[0], 3, 1);
	follow(&d, p, own, theirs, toChild[1], toParent[0], 9, 8);
	for (int i = 0; i < ROUNDS; i++)
		want = (want * 3 + 1) * 5 + 9;
	for (int i = 0; i < ROUNDS; i++)
		want = (want * 7 + 3) * 9 + 8;
	holds(p, want);
	holds(q, 1);

	take(toParent[0], &c, 1); // the child has opened it so often
	outlived(&d, two, fromVictim[0], &gone);
	CHECK(cuMemFree(p));
	CHECK(cuEventDestroy(own));
	give(toChild[1], &c, 1);
	give(toChild[1], &gone, sizeof gone); // which no process has any more
	REQUIRE(waitpid(one, &status, 0) == one && status == 0);
	CHECK(cuEventDestroy(theirs));
	CHECK(cuCtxDestroy(d.ctx));
	puts("ipc: PASS");
	return 0;
}
