// Memory that processes of a guest share, a file in /dev/shm, which each of them registers for its
// device: kernels of two devices take turns by words that they write there and wait for, as those of
// NCCL do. Where a process dies, the other ends its kernel by such a word. A file that is cut under
// them is a fault of the context that wants it, and of none else.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

// Side ME of a game of N turns: 32 threads write words of their own, then one tells the other side
// (words 0 and 32), waits until that one has had its turn, and all of them look what it wrote. Word 64 is
// how many words were wrong, word 65 ends the game.
static const char ptx[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry play(.param .u64 p, .param .u32 me, .param .u32 n)\n{\n"
	".reg .pred %q, %first;\n.reg .b32 %t, %me, %n, %i, %x, %y;\n.reg .b64 %p, %mine, %theirs, %put, %got, %d;\n"
	"ld.param.u64 %p, [p];\nld.param.u32 %me, [me];\nld.param.u32 %n, [n];\nmov.u32 %t, %tid.x;\nsetp.eq.u32 %first, %t, 0;\n"
	"mul.wide.u32 %d, %me, 128;\nadd.s64 %mine, %p, %d;\nxor.b32 %x, %me, 1;\nmul.wide.u32 %d, %x, 128;\nadd.s64 %theirs, %p, %d;\n"
	"mul.wide.u32 %d, %t, 4;\nadd.s64 %put, %mine, %d;\nadd.s64 %got, %theirs, %d;\nmov.u32 %i, 0;\n"
	"TURN:\nadd.u32 %i, %i, 1;\nsetp.ne.u32 %q, %me, 0;\n@%q bra WAIT;\n"
	"PUT:\nmad.lo.u32 %x, %i, 1000, %t;\nmad.lo.u32 %x, %me, 500, %x;\nst.volatile.global.u32 [%put+4096], %x;\nmembar.sys;\nbar.warp.sync -1;\n"
	"@%first st.volatile.global.u32 [%mine], %i;\nsetp.ne.u32 %q, %me, 0;\n@%q bra NEXT;\n"
	"WAIT:\nld.volatile.global.u32 %x, [%p+260];\nsetp.ne.u32 %q, %x, 0;\n@%q bra DONE;\n"
	"ld.volatile.global.u32 %x, [%theirs];\nsetp.lt.u32 %q, %x, %i;\n@%q bra WAIT;\nmembar.sys;\nbar.warp.sync -1;\n"
	"ld.volatile.global.u32 %x, [%got+4096];\nmad.lo.u32 %y, %i, 1000, %t;\nsub.u32 %x, %x, %y;\nxor.b32 %y, %me, 1;\nmul.lo.u32 %y, %y, 500;\n"
	"setp.ne.u32 %q, %x, %y;\n@%q atom.global.sys.add.u32 %x, [%p+256], 1;\nsetp.ne.u32 %q, %me, 0;\n@%q bra PUT;\n"
	"NEXT:\nsetp.lt.u32 %q, %i, %n;\n@%q bra TURN;\nDONE:\nret;\n}\n";

enum { PAGE = 4096, BYTES = 3 * PAGE + 4, TURNS = 60, WRONG = 64, OVER = 65, KEPT = 2 * PAGE / 4, PORTABLE = 1, MAPPED = 2 };

struct side {
	unsigned me, *words;
	CUdevice device;
	CUcontext ctx;
	CUfunction play;
	CUdeviceptr there;
	int fd;
};

static struct side begin(unsigned me, const char *path, int fd)
{
	struct side s = {.me = me, .fd = fd};
	CUmodule m;
	int devices;
	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&devices));
	CHECK(cuDeviceGet(&s.device, (int)me % devices));
	CHECK(cuCtxCreate(&s.ctx, 0, s.device));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&s.play, m, "play"));
	if (s.fd < 0)
		s.fd = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(s.fd >= 0);
	s.words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	REQUIRE(s.words != MAP_FAILED);
	if (me)
		REQUIRE(!unlink(path)); // the descriptor is left
	CHECK(cuMemHostRegister(s.words, BYTES, PORTABLE | MAPPED));
	return s;
}

static void launch(struct side *s, unsigned turns)
{
	void *args[] = {&s->there, &s->me, &turns};
	CHECK(cuMemHostGetDevicePointer(&s->there, s->words, 0));
	CHECK(cuLaunchKernel(s->play, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
}

static void ends(struct side *s)
{
	CHECK(cuMemHostUnregister(s->words));
	REQUIRE(!munmap(s->words, BYTES) && !close(s->fd));
	CHECK(cuCtxDestroy(s->ctx));
}

// awaits a word of another process.
static void awaits(unsigned *word, unsigned want)
{
	while (*(_Atomic unsigned *)word != want)
		usleep(100);
}

static int peer(const char *path)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct side s = begin(1, path, -1);
	REQUIRE(s.words[KEPT] == 77); // written before this process had the file
	s.words[KEPT + 1] = 78;
	launch(&s, TURNS);
	CHECK(cuCtxSynchronize());
	// Now a turn that the other side never has.
	awaits(&s.words[KEPT + 2], 1);
	s.words[0] = s.words[32] = 0;
	launch(&s, 1);
	s.words[KEPT + 1] = 79;
	CHECK(cuCtxSynchronize());
	puts("it ended although it was to be killed");
	return 1;
}

// cut takes the file from under the device.
static void cut(struct side *s)
{
	CUcontext other;
	CUdeviceptr p;
	unsigned one = 1;
	s->words[OVER] = 1;
	REQUIRE(!ftruncate(s->fd, 0));
	s->me = 0;
	launch(s, 1);
	if (cuCtxSynchronize() == CUDA_SUCCESS) { // NVIDIA's have pinned the pages
		puts("the GPU has kept what was cut");
		CHECK(cuCtxDestroy(s->ctx));
		return;
	}
	REQUIRE(cuMemAlloc(&p, 64) != CUDA_SUCCESS);
	CHECK(cuCtxCreate(&other, 0, s->device)); // another is not lost
	CHECK(cuMemAlloc(&p, 64));
	CHECK(cuMemcpyHtoD(p, &one, 4));
	// There is nothing to register now, and no such word is touched to find out.
	REQUIRE(cuMemHostRegister(s->words, BYTES, 0) != CUDA_SUCCESS);
	CHECK(cuCtxDestroy(other));
	cuCtxDestroy(s->ctx);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return peer(argv[1]);
	char path[] = "/dev/shm/pvdrm-sharedfile-XXXXXX";
	int fd = mkstemp(path), status;
	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	struct side s = begin(0, path, fd);
	CUdeviceptr p;
	if (cuMemHostGetDevicePointer(&p, s.words, 0) == CUDA_ERROR_NOT_SUPPORTED) { // devices of a virtual machine have pages of their own
		REQUIRE(!unlink(path));
		puts("memory that processes share is for copies only\nsharedfile: PASS");
		return 0;
	}
	s.words[KEPT] = 77;
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		execl("/proc/self/exe", argv[0], path, NULL);
		_exit(1);
	}
	launch(&s, TURNS); // begins before the other side is there
	CHECK(cuCtxSynchronize());
	REQUIRE(s.words[0] == TURNS && s.words[WRONG] == 0 && s.words[KEPT + 1] == 78);
	s.words[KEPT + 2] = 1;
	awaits(&s.words[KEPT + 1], 79);
	// The other side dies while its kernel waits for this one. This one's waits for what it would have written.
	REQUIRE(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	s.me = 1;
	launch(&s, 1);
	usleep(20000);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	s.words[OVER] = 1;
	CHECK(cuCtxSynchronize());
	REQUIRE(s.words[0] == 0 && s.words[32] == 0);
	ends(&s);
	// And a file of which the end goes.
	strcpy(path, "/dev/shm/pvdrm-sharedfile-XXXXXX");
	fd = mkstemp(path);
	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	s = begin(0, path, fd);
	REQUIRE(!unlink(path));
	cut(&s);
	puts("sharedfile: PASS");
	return 0;
}
