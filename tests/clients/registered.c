// Memory that the program has allocated itself, which kernels use after cuMemHostRegister: on the heap
// beside other data, while threads write there, before and after forks, and when it is the program's
// own again.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

enum { HOST_REGISTER_SUPPORTED = 99, LARGE = (65 << 20) + 1000, PAGE = 4096, THREADS = 3, ROUNDS = 40 };

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v)\n{\n"
	".reg .pred %over;\n.reg .b32 %i, %n, %x, %v, %step;\n.reg .b64 %p, %at;\n"
	"ld.param.u64 %p, [p];\nld.param.u32 %n, [n];\nld.param.u32 %v, [v];\nmov.u32 %i, %tid.x;\nmov.u32 %step, %ntid.x;\n"
	"next:\nsetp.ge.u32 %over, %i, %n;\n@%over bra done;\nmad.wide.u32 %at, %i, 4, %p;\n"
	"ld.global.u32 %x, [%at];\nadd.u32 %x, %x, %v;\nst.global.u32 [%at], %x;\nadd.u32 %i, %i, %step;\nbra next;\ndone:\nret;\n}\n";

static CUfunction adds;

// add has a kernel add v to n words of the program.
static void add(unsigned *words, unsigned n, unsigned v)
{
	CUdeviceptr p;
	CHECK(cuMemHostGetDevicePointer(&p, words, 0));
	void *args[] = {&p, &n, &v};
	CHECK(cuLaunchKernel(adds, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
	CHECK(cuCtxSynchronize());
}

static void on_the_heap(void)
{
	// Three neighbours, most likely in one page.
	unsigned *a = malloc(400), *b = malloc(400), *c = malloc(400);
	for (unsigned i = 0; i < 100; i++)
		a[i] = i, b[i] = 1000 + i, c[i] = 2000 + i;
	CHECK(cuMemHostRegister(a, 400, 0));
	CHECK(cuMemHostRegister(c, 400, 0));
	EXPECT(712, cuMemHostRegister(c + 1, 4, 0));
	add(a, 100, 7);
	add(c + 10, 90, 8);
	CHECK(cuMemHostUnregister(a)); // in a page that c keeps
	add(c, 10, 8);
	for (unsigned i = 0; i < 100; i++)
		REQUIRE(a[i] == i + 7 && b[i] == 1000 + i && c[i] == 2008 + i);
	// Arguments of calls may lie there, too.
	unsigned *n = b, *v = b + 1;
	void **args = (void **)(b + 2);
	CHECK(cuMemHostGetDevicePointer((CUdeviceptr *)(b + 20), c, 0));
	*n = 100, *v = 1;
	args[0] = b + 20, args[1] = n, args[2] = v;
	CHECK(cuLaunchKernel(adds, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
	CHECK(cuCtxSynchronize());
	REQUIRE(c[99] == 2000 + 99 + 9);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(c));
	CHECK(cuMemHostUnregister(c));
	EXPECT(713, cuMemHostUnregister(c));
	free(a), free(b), free(c);
}

static void large(void)
{
	char *p = malloc(LARGE);
	CUdeviceptr d;
	memset(p, 1, LARGE);
	CHECK(cuMemHostRegister(p, LARGE, 2));
	add((unsigned *)p, LARGE / 4, 0x01010101);
	for (size_t i = 0; i < LARGE; i += 97)
		REQUIRE(p[i] == 2);
	memset(p, 5, LARGE);
	add((unsigned *)p, LARGE / 4, 1);
	REQUIRE(p[LARGE - 4] == 6 && p[LARGE - 3] == 5);
	CHECK(cuMemAlloc(&d, 64 << 10)); // the device copies it itself
	CHECK(cuMemcpyHtoD(d, p + LARGE - (64 << 10), 64 << 10));
	memset(p, 0, 64 << 10);
	CHECK(cuMemcpyDtoH(p, d, 64 << 10));
	REQUIRE(p[0] == 6 && p[1] == 5 && p[(64 << 10) - 4] == 6);
	CHECK(cuMemHostUnregister(p));
	REQUIRE(p[0] == 6 && p[LARGE - 4] == 6);
	p = realloc(p, 2 * LARGE); // which may move pages, or add some
	REQUIRE(p && p[0] == 6 && p[LARGE - 4] == 6);
	memset(p + LARGE, 9, LARGE);
	free(p);
	CHECK(cuMemFree(d));
}

static atomic_int stop;

// count writes to every page all the time, and finds what it has written.
static void *count(void *at)
{
	unsigned *words = at, n = 0;
	while (!atomic_load(&stop)) {
		for (int i = 0; i < 16; i++) {
			unsigned *w = words + i * (PAGE / 4);
			REQUIRE(*(volatile unsigned *)w == n);
			*(volatile unsigned *)w = n + 1;
		}
		n++;
	}
	return (void *)(uintptr_t)n;
}

static void while_threads_write(void)
{
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&t[i], NULL, count, p + 64 * i) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cuMemHostRegister(p + 1024, 15 * PAGE, 0)); // each page is shared with what they write
		add((unsigned *)(p + 2048), 4, 1);
		CHECK(cuMemHostUnregister(p + 1024));
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++) {
		void *n;
		REQUIRE(pthread_join(t[i], &n) == 0);
		REQUIRE(*(unsigned *)(p + 64 * i + 15 * PAGE) == (unsigned)(uintptr_t)n);
	}
	REQUIRE(*(unsigned *)(p + 2048) == ROUNDS);
	munmap(p, 16 * PAGE);
}

// in_a_child has a child look at a word and write there, which the parent does not see.
static void in_a_child(unsigned *word, unsigned want)
{
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		int same = *word == want;
		*word = 77;
		void *more = malloc(100000);
		free(more);
		_exit(same && *word == 77 ? 3 : 4);
	}
	int status;
	REQUIRE(waitpid(child, &status, 0) == child);
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 3 && *word == want);
}

static void with_children(void)
{
	unsigned *small = calloc(1, 64), *p = calloc(100, PAGE);
	CHECK(cuMemHostRegister(small, 64, 0));
	CHECK(cuMemHostRegister(p, 100 * PAGE, 0));
	for (int i = 0; i < 3; i++) {
		add(small, 1, 1);
		add(p + 50000, 1, 2);
		in_a_child(small, i + 1);
		in_a_child(p + 50000, 2 * i + 2);
	}
	REQUIRE(system("exit 5") == 5 << 8);
	CHECK(cuMemHostUnregister(small));
	CHECK(cuMemHostUnregister(p));
	in_a_child(small, 3);
	in_a_child(p + 50000, 6);
	free(small), free(p);
}

static void of_other_kinds(void)
{
	unsigned stack[2 * PAGE] = {4}, got[2] = {0};
	unsigned *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned *all[] = {stack, shared};
	CUdeviceptr p, d;
	CHECK(cuMemAlloc(&d, 64));
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemHostRegister(all[i], PAGE, 0)); // for copies only
		EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemHostGetDevicePointer(&p, all[i], 0));
		all[i][0] = 40 + i;
		CHECK(cuMemcpyHtoD(d, all[i], 4));
		CHECK(cuMemcpyDtoH(&got[i], d, 4));
		REQUIRE(got[i] == 40u + i);
		CHECK(cuMemHostUnregister(all[i]));
	}
	munmap(shared, PAGE);
	CHECK(cuMemFree(d));
}

// and_taken_away unmaps memory that is registered, puts other memory there, and ends a context that has some.
static void and_taken_away(CUdevice dev)
{
	CUcontext other;
	CUmodule m;
	CUfunction before = adds;
	unsigned *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(cuMemHostRegister(p, 8 * PAGE, 0));
	add(p, 8 * PAGE / 4, 3);
	munmap(p, 4 * PAGE);
	unsigned *q = mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	REQUIRE(q == p);
	*q = 9;
	CHECK(cuMemHostUnregister(p));
	REQUIRE(*q == 9 && p[5 * PAGE / 4] == 3);
	munmap(p, 8 * PAGE);
	p = calloc(2, PAGE);
	CHECK(cuCtxCreate(&other, 0, dev));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&adds, m, "add"));
	CHECK(cuMemHostRegister(p, 2 * PAGE, 0));
	add(p, 2 * PAGE / 4, 6);
	CHECK(cuCtxDestroy(other));
	adds = before;
	REQUIRE(p[0] == 6 && p[2 * PAGE / 4 - 1] == 6);
	EXPECT(713, cuMemHostUnregister(p));
	CHECK(cuMemHostRegister(p, 2 * PAGE, 0));
	add(p, 2 * PAGE / 4, 1);
	REQUIRE(p[0] == 7);
	CHECK(cuMemHostUnregister(p));
	free(p);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	int supported = 0;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&adds, module, "add"));
	CHECK(cuDeviceGetAttribute(&supported, (CUdevice_attribute)HOST_REGISTER_SUPPORTED, dev));
	of_other_kinds();
	if (supported) {
		on_the_heap();
		large();
		while_threads_write();
		with_children();
		and_taken_away(dev);
	} else {
		puts("registered: the kernel or a filter keeps this process from userfaultfd, so kernels cannot have its memory");
	}
	CHECK(cuCtxDestroy(ctx));
	puts("registered: PASS");
	return 0;
}
