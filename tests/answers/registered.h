// Memory of the program's own that it registers: what it is to calls and to kernels.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "ask.h"

static const char adds[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry add(.param .u64 p, .param .u32 v)\n"
	"{\n\t.reg .u64 %a;\n\t.reg .u32 %x, %v;\n\tld.param.u64 %a, [p];\n\tld.param.u32 %v, [v];\n\tld.global.u32 %x, [%a];\n"
	"\tadd.u32 %x, %x, %v;\n\tst.global.u32 [%a], %x;\n\tret;\n}\n";

enum { SIZE = 64 << 10 };

static void *adder;

// runs_add has a kernel add v to the word at an address of the device.
static int runs_add(u64 at, unsigned v)
{
	void *arguments[] = {&at, &v};
	int r = CALL(cuLaunchKernel, adder, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
	return r ? r : CALL(cuCtxSynchronize);
}

static void *a_map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// device_word is the result of the call, and where the pointer of the device lies from there.
static void device_word(const char *question, void *p, u64 *to)
{
	*to = 0;
	ASK(question, CALL(cuMemHostGetDevicePointer_v2, to, p, 0));
}

static void registered_attributes(char *own)
{
	static const int attributes[] = {1, 2, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		char question[64];
		u64 v = 0;
		snprintf(question, sizeof question, "reg-attribute-%d", attributes[i]);
		int r = CALL(cuPointerGetAttribute, &v, attributes[i], own + 100);
		if (attributes[i] == 1)
			v = v != 0;
		if (attributes[i] == 11 || attributes[i] == 19)
			v -= (u64)own; // where the range begins
		ANSWER(question, r, v);
	}
	u64 v = 0, w = 0;
	ANSWER("reg-attribute-host-pointer", CALL(cuPointerGetAttribute, &v, 4, own + 100), v - (u64)own);
	ASK("reg-attribute-device-pointer", CALL(cuPointerGetAttribute, &w, 3, own + 100));
	int value = 0;
	ASK("reg-attribute-sync-memops", CALL(cuPointerSetAttribute, &value, 6, own));
	u64 base = (u64)own;
	size_t n = 0;
	ANSWER("reg-range", CALL(cuMemGetAddressRange_v2, &base, &n, own + 100), n);
	printf("reg-range-base %lld\n", (long long)(base - (u64)own));
	ASK("reg-attribute-after-end", CALL(cuPointerGetAttribute, &v, 2, own + 3000));
	ASK("reg-attribute-before", CALL(cuPointerGetAttribute, &v, 2, own - 1));
}

// registered_pointers asks for pointers, and uses them in a kernel.
static void registered_pointers(char *own)
{
	u64 p = 0, q = 0;
	unsigned flags = 0;
	int *word = (int *)(own + 100);
	device_word("reg-device-pointer", own, &p);
	device_word("reg-device-pointer-inside", own + 100, &q);
	printf("reg-device-pointer-inside-offset %lld\n", (long long)(q - p));
	*word = 40;
	ANSWER("reg-kernel", runs_add(q, 2), *word);
	device_word("reg-device-pointer-last", own + 2999, &q);
	device_word("reg-device-pointer-after-end", own + 3000, &q);
	device_word("reg-device-pointer-before", own - 1, &q);
	ASK("reg-device-pointer-flags", CALL(cuMemHostGetDevicePointer_v2, &q, own, 1));
	ANSWER("reg-flags", CALL(cuMemHostGetFlags, &flags, own), flags);
	ANSWER("reg-flags-inside", CALL(cuMemHostGetFlags, &flags, own + 100), flags);
	ANSWER("reg-set", CALL(cuMemsetD8_v2, p, 7, (u64)16), own[15]);
	u64 device;
	MUST(cuMemAlloc_v2, &device, (u64)4096);
	ANSWER("reg-copy-to", CALL(cuMemcpyHtoD_v2, device, own, (u64)3000), 0);
	memset(own, 1, 3000);
	ANSWER("reg-copy-from", CALL(cuMemcpyDtoH_v2, own, device, (u64)3000), own[0]);
	ASK("reg-copy-across-end", CALL(cuMemcpyDtoH_v2, own + 2990, device, (u64)64));
	ASK("reg-copy-across-beginning", CALL(cuMemcpyDtoH_v2, own - 16, device, (u64)64));
	ASK("reg-free-host", CALL(cuMemFreeHost, own));
	ASK("reg-free", CALL(cuMemFree_v2, own));
}

static void registered_overlaps(char *map)
{
	char *own = map + 4096;
	ASK("reg-again", CALL(cuMemHostRegister_v2, own, (u64)3000, 0));
	ASK("reg-again-shorter", CALL(cuMemHostRegister_v2, own, (u64)30, 0));
	ASK("reg-overlap-end", CALL(cuMemHostRegister_v2, own + 2999, (u64)64, 0));
	ASK("reg-overlap-beginning", CALL(cuMemHostRegister_v2, own - 64, (u64)65, 0));
	ASK("reg-around", CALL(cuMemHostRegister_v2, own - 64, (u64)8192, 0));
	ASK("reg-same-page", CALL(cuMemHostRegister_v2, own + 3000, (u64)64, 0));
	ASK("reg-same-page-after", CALL(cuMemHostRegister_v2, own + 3072, (u64)64, 0));
	ASK("reg-unregister-inside", CALL(cuMemHostUnregister, own + 100));
	ASK("reg-unregister-end", CALL(cuMemHostUnregister, own + 3200));
	ASK("reg-unregister-null", CALL(cuMemHostUnregister, NULL));
	u64 q;
	device_word("reg-device-pointer-same-page", own + 3000, &q);
	*(int *)(own + 3000) = 5;
	ANSWER("reg-kernel-same-page", q ? runs_add(q, 2) : -1, *(int *)(own + 3000));
	ASK("reg-unregister", CALL(cuMemHostUnregister, own));
	ASK("reg-unregister-again", CALL(cuMemHostUnregister, own));
	device_word("reg-device-pointer-gone", own, &q);
	ASK("reg-unregister-same-page", CALL(cuMemHostUnregister, own + 3000));
	ASK("reg-unregister-same-page-after", CALL(cuMemHostUnregister, own + 3072));
}

// register_kind registers memory of a kind, and has a kernel add to its first word.
static void register_kind(const char *kind, void *p, size_t bytes, unsigned flags, int writes)
{
	char question[80];
	u64 q = 0;
	snprintf(question, sizeof question, "reg-kind-%s", kind);
	int r = CALL(cuMemHostRegister_v2, p, (u64)bytes, flags);
	ASK(question, r);
	if (r)
		return;
	unsigned is = 0;
	snprintf(question, sizeof question, "reg-kind-%s-flags", kind);
	ANSWER(question, CALL(cuMemHostGetFlags, &is, p), is);
	snprintf(question, sizeof question, "reg-kind-%s-pointer", kind);
	device_word(question, p, &q);
	snprintf(question, sizeof question, "reg-kind-%s-kernel", kind);
	if (q && writes) {
		*(volatile int *)p = 40;
		ANSWER(question, runs_add(q, 2), *(volatile int *)p);
	}
	snprintf(question, sizeof question, "reg-kind-%s-unregister", kind);
	ASK(question, CALL(cuMemHostUnregister, p));
}

static void registered_kinds(void)
{
	char *m = a_map(SIZE), stack[SIZE];
	static const unsigned flags[] = {1, 2, 3, 4, 8, 9, 10, 16, 32};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		char kind[32];
		snprintf(kind, sizeof kind, "flags-%u", flags[i]);
		register_kind(kind, m, 4096, flags[i], !(flags[i] & 8));
	}
	register_kind("untouched", a_map(SIZE), SIZE, 0, 1);
	register_kind("malloc", malloc(1000), 1000, 0, 1);
	register_kind("stack", stack, SIZE, 0, 1);
	static int data[4096] = {1};
	register_kind("data", data, sizeof data, 0, 1);
	register_kind("const", (void *)(uintptr_t)adds, sizeof adds, 0, 0);
	register_kind("const-read-only", (void *)(uintptr_t)adds, sizeof adds, 8, 0);
	char *ro = a_map(SIZE);
	ro[0] = 1;
	mprotect(ro, SIZE, PROT_READ);
	register_kind("protected", ro, SIZE, 0, 0);
	register_kind("protected-read-only", ro, SIZE, 8, 0);
	char *none = a_map(SIZE);
	mprotect(none, SIZE, PROT_NONE);
	register_kind("no-access", none, SIZE, 0, 0);
	char *hole = a_map(3 * 4096);
	munmap(hole + 4096, 4096);
	register_kind("hole", hole, 3 * 4096, 0, 0);
	register_kind("shared", mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), SIZE, 0, 1);
	int memfd = memfd_create("x", 0), exe = open("/proc/self/exe", O_RDONLY);
	if (ftruncate(memfd, SIZE))
		_exit(6);
	register_kind("memfd", mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0), SIZE, 0, 1);
	register_kind("memfd-private", mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, memfd, 0), SIZE, 0, 1);
	register_kind("file-private", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, exe, 0), 4096, 0, 1);
	register_kind("file-read-only", mmap(NULL, 4096, PROT_READ, MAP_SHARED, exe, 0), 4096, 8, 0);
	u64 device = 0, managed = 0;
	MUST(cuMemAlloc_v2, &device, (u64)4096);
	MUST(cuMemAllocManaged, &managed, (u64)4096, 1);
	ASK("reg-kind-device", CALL(cuMemHostRegister_v2, device, (u64)4096, 0));
	ASK("reg-kind-managed", CALL(cuMemHostRegister_v2, managed, (u64)4096, 0));
	ASK("reg-kind-null", CALL(cuMemHostRegister_v2, NULL, (u64)4096, 0));
	ASK("reg-kind-kernel", CALL(cuMemHostRegister_v2, (u64)1 << 63, (u64)4096, 0));
	ASK("reg-kind-too-long", CALL(cuMemHostRegister_v2, m, (u64)1 << 46, 0));
}

static void registered_contexts(char *own)
{
	void *first = NULL, *second;
	u64 p = 0, q = 0;
	unsigned flags;
	MUST(cuCtxGetCurrent, &first);
	MUST(cuMemHostRegister_v2, own, (u64)4096, 2);
	device_word("reg-contexts-pointer", own, &p);
	MUST(cuCtxCreate_v2, &second, 0, 0);
	ASK("reg-other-context-again", CALL(cuMemHostRegister_v2, own, (u64)4096, 0));
	device_word("reg-other-context-pointer", own, &q);
	printf("reg-other-context-pointer-same %d\n", p == q);
	ANSWER("reg-other-context-flags", CALL(cuMemHostGetFlags, &flags, own), flags);
	ASK("reg-other-context-unregister", CALL(cuMemHostUnregister, own));
	MUST(cuCtxDestroy_v2, second);
	MUST(cuCtxSetCurrent, first);
	device_word("reg-contexts-pointer-after", own, &q);
	ASK("reg-contexts-unregister", CALL(cuMemHostUnregister, own));
	MUST(cuCtxCreate_v2, &second, 0, 0);
	MUST(cuMemHostRegister_v2, own, (u64)4096, 0);
	own[0] = 11;
	MUST(cuCtxDestroy_v2, second);
	MUST(cuCtxSetCurrent, first);
	printf("reg-destroyed-content %d\n", own[0]);
	ASK("reg-destroyed-unregister", CALL(cuMemHostUnregister, own));
	ASK("reg-destroyed-register", CALL(cuMemHostRegister_v2, own, (u64)4096, 0));
	ASK("reg-destroyed-unregister-own", CALL(cuMemHostUnregister, own));
}

// registered_children asks what the child of a fork has of registered memory.
static void registered_children(char *own)
{
	MUST(cuMemHostRegister_v2, own, (u64)4096, 0);
	u64 p = 0;
	device_word("reg-fork-pointer", own, &p);
	int *word = (int *)own, status = 0;
	*word = 1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		int saw = *word;
		*word = 100;
		_exit(saw);
	}
	waitpid(child, &status, 0);
	printf("reg-fork-child-sees %d\nreg-fork-parent-keeps %d\n", WEXITSTATUS(status), *word);
	ANSWER("reg-fork-kernel", runs_add(p, 2), *word);
	ASK("reg-fork-unregister", CALL(cuMemHostUnregister, own));
	printf("reg-fork-content %d\n", *word);
}

// registered_unmapped registers memory that the program then takes away.
static void registered_unmapped(void)
{
	char *own = a_map(SIZE);
	memset(own, 1, SIZE);
	MUST(cuMemHostRegister_v2, own, (u64)SIZE, 0);
	munmap(own, SIZE);
	u64 q;
	device_word("reg-unmapped-pointer", own, &q);
	ASK("reg-unmapped-unregister", CALL(cuMemHostUnregister, own));
	own = a_map(SIZE);
	MUST(cuMemHostRegister_v2, own, (u64)SIZE, 0);
	char *other = mmap(own, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	other[0] = 9;
	ASK("reg-replaced-again", CALL(cuMemHostRegister_v2, own, (u64)SIZE, 0));
	ASK("reg-replaced-unregister", CALL(cuMemHostUnregister, own));
	printf("reg-replaced-content %d\n", other[0]);
}

static void registered(const char *cudart)
{
	(void)cudart;
	int value = 0;
	void *module;
	char *map;
	a_context();
	MUST(cuModuleLoadData, &module, adds);
	MUST(cuModuleGetFunction, &adder, module, "add");
	ANSWER("reg-can-use-host-pointer", CALL(cuDeviceGetAttribute, &value, 91, 0), value);
	map = a_map(SIZE);
	ASK("reg-odd", CALL(cuMemHostRegister_v2, map + 4096, (u64)3000, 0));
	registered_attributes(map + 4096);
	registered_pointers(map + 4096);
	registered_overlaps(map);
	registered_kinds();
	registered_contexts(map);
	registered_children(map);
	registered_unmapped();
}
