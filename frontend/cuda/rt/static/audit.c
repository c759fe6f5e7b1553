// libpvdrm-static.so: leads the calls of NVIDIA's static CUDA runtime, which nvcc
// links into programs by default, to PVDRM's libcudart.so.
//
// The loader loads it for LD_AUDIT, into a namespace of its own, and tells it of
// every object that is loaded, before any code of it runs: at the start of the program and by
// dlopen. (LD_PRELOAD would not see the latter, and AddressSanitizer ends programs
// with it.) Where an object's own symbol table says that it has the runtime in it,
// each entry point of it becomes a jump to PVDRM's. Other objects, and all that
// PVDRM's library does not replace, stay as they are.
//
//	entry of cudaMalloc    jmp stub
//	stub, near the object  jmp *target: at first the next instruction
//	                       r11 = &call; jmp pvdrm_static_enter
//	pvdrm_static_enter     finds cudaMalloc in libcudart.so, sets target, goes there
//
// So libcudart.so is loaded at the first call, by the program and not by the loader's callback.
//
// It has the loader take PVDRM's libraries in place of NVIDIA's of the same name, wherever these lie: see
// search.c.
//
// Of libnvrtc.so and libnvJitLink.so, which compile at run time, it leads one function: see nvrtc.c.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../c/missing.h"
#include "runtime.h"

#if !defined(__x86_64__) || !defined(__linux__)
#error "libpvdrm-static.so is for Linux on x86-64"
#endif

#define PUBLIC __attribute__((visibility("default")))

enum { NOT_SUPPORTED = 801, NOT_LOADED = 127 }; // cudaErrorNotSupported; the loader's exit code for a missing library

// call is what the stub of an entry point needs.
struct call {
	_Atomic(void *) target;
	const char *name;
	int major;
};

enum { STUB_BYTES = 32 };

// island has the stubs of an object, within reach of its jumps: pages of code, then
// the calls behind pvdrm_static_enter's address.
struct island {
	struct island *next;
	uint8_t *at;
	size_t code, bytes;
	size_t n;
	int used; // the object is still loaded
};

// The loader calls us under its lock.
static struct island *islands;

static char directory[4096]; // of this library, with the last slash
static int log_errors, stubs;

// tell prints the words up to NULL.
static void tell(const char *words, ...)
{
	char line[2 * sizeof directory];
	size_t n = 0;
	va_list rest;
	va_start(rest, words);
	for (const char *w = words; w; w = va_arg(rest, const char *))
		for (; *w && n < sizeof line - 1; w++)
			line[n++] = *w;
	va_end(rest);
	line[n++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, n);
	(void)ignored;
}

static void *load(const char *name)
{
	char path[sizeof directory + 32];
	strcpy(path, directory);
	strcat(path, name);
	void *library = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		tell("pvdrm: the program's calls of the CUDA runtime cannot be served: ", why ? why : path, NULL);
		_exit(NOT_LOADED);
	}
	return library;
}

// runtime returns our libcudart.so of a major version. The first call loads it, in each of
// two threads that race: the loader counts.
static void *runtime(int major)
{
	static _Atomic(void *) loaded[3];
	static const char *const names[] = {"libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"};
	_Atomic(void *) *to = &loaded[major - 11];
	void *library = atomic_load(to);
	if (!library) {
		load("libcuda.so.1"); // ours, wherever LD_LIBRARY_PATH of today points
		library = load(names[major - 11]);
		atomic_store(to, library);
	}
	return library;
}

static int unsupported(void) { return NOT_SUPPORTED; }

// pvdrm_static_resolve returns the function that a call goes to.
void *pvdrm_static_resolve(struct call *c)
{
	void *target = dlsym(runtime(c->major), c->name);
	if (target) {
		atomic_store(&c->target, target);
	} else {
		if (log_errors)
			tell("libcudart: ", c->name, ": cudaErrorNotSupported: PVDRM has no such function", NULL);
		tell_missing(c->name, "cudaErrorNotSupported", "PVDRM has no such function");
	}
	return target ? target : (void *)unsupported;
}

// pvdrm_static_enter keeps all arguments while pvdrm_static_resolve runs. No function of
// the API has arguments in the upper parts of vector registers.
void pvdrm_static_enter(void);
__asm__(".text\n"
	".type pvdrm_static_enter, @function\n"
	"pvdrm_static_enter:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	push %rax; push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; push %r10\n"
	"	sub $128, %rsp\n"
	"	movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)\n"
	"	movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)\n"
	"	mov %r11, %rdi\n"
	"	call pvdrm_static_resolve\n"
	"	mov %rax, %r11\n"
	"	movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3\n"
	"	movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7\n"
	"	add $128, %rsp\n"
	"	pop %r10; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi; pop %rax\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	jmp *%r11\n"
	"	.cfi_endproc\n"
	".size pvdrm_static_enter, . - pvdrm_static_enter\n");

static size_t pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) & -page;
}

// REACH is how far an island may be from an object's entry points, which are within
// SPAN: a jump reaches 2 GiB.
static const uintptr_t SPAN = (uintptr_t)1 << 25, REACH = ((uintptr_t)1 << 31) - ((uintptr_t)1 << 26);

static uint64_t distance(uintptr_t a, uintptr_t b) { return a < b ? b - a : a - b; }

// gap_near returns where in the address space bytes are free near an address, or 0.
// It prefers places below: above a program's own memory lies its heap.
static uintptr_t gap_near(uintptr_t address, size_t bytes)
{
	char text[4096];
	uintptr_t value = 0, end = 1 << 16, below = 0, above = 0; // of the last mapping, and the best so far
	ssize_t n;
	int wanted = 1, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC); // a line begins: BEGIN-END, in hexadecimal
	if (fd < 0)
		return 0;
	while ((n = read(fd, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			char c = text[i];
			if (c == '\n') {
				wanted = 1;
				value = 0;
			} else if (wanted && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
				value = value << 4 | (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
			} else if (wanted && c == '-') {
				if (value > end && value - end >= bytes) {
					if (value <= address)
						below = value - bytes;
					else if (!above)
						above = end;
				}
				value = 0;
			} else if (wanted) {
				end = value > end ? value : end;
				wanted = 0;
			}
		}
	close(fd);
	if (below && distance(below, address) < REACH)
		return below;
	return above && distance(above, address) < REACH ? above : 0;
}

// near_pages maps pages near an address.
static uint8_t *near_pages(uintptr_t address, size_t bytes)
{
	for (int i = 0; i < 8; i++) { // another thread may take the place
		uintptr_t at = gap_near(address, bytes);
		if (!at)
			return NULL;
		void *p = mmap((void *)at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == (void *)at)
			return p;
		if (p != MAP_FAILED)
			munmap(p, bytes); // a kernel before 4.17 takes the address for a hint
	}
	return NULL;
}

static struct call *calls_of(const struct island *m) { return (struct call *)(m->at + m->code + 16); }

// take_island finds or makes one for n stubs. Those of objects that were unloaded are used again.
static struct island *take_island(uintptr_t address, size_t n)
{
	for (struct island *m = islands; m; m = m->next)
		if (!m->used && m->n == n && distance((uintptr_t)m->at, address) < REACH)
			return m;
	struct island *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->n = n;
	m->code = pages(n * STUB_BYTES);
	m->bytes = m->code + pages(16 + n * sizeof(struct call));
	m->at = near_pages(address, m->bytes);
	if (!m->at) {
		free(m);
		return NULL;
	}
	m->next = islands;
	islands = m;
	return m;
}

// put writes an instruction whose last four bytes are the distance to an address.
static uint8_t *put(uint8_t *at, const char *code, size_t bytes, const void *to)
{
	memcpy(at, code, bytes);
	at += bytes + 4;
	int32_t difference = (int32_t)((const uint8_t *)to - at);
	memcpy(at - 4, &difference, 4);
	return at;
}

// fill_island writes the stubs.
static int fill_island(struct island *m, const struct runtime *r)
{
	struct call *calls = calls_of(m);
	void **enter = (void **)(m->at + m->code);
	if (mprotect(m->at, m->code, PROT_READ | PROT_WRITE))
		return 0;
	*enter = (void *)pvdrm_static_enter;
	for (size_t i = 0; i < r->n; i++) {
		uint8_t *stub = m->at + i * STUB_BYTES;
		free((void *)calls[i].name);
		calls[i].name = strdup(r->functions[i].name);
		if (!calls[i].name)
			return 0;
		calls[i].major = r->major;
		memset(stub, 0xcc, STUB_BYTES);
		uint8_t *lazy = put(stub, "\xff\x25", 2, &calls[i].target); // jmp *target
		atomic_store(&calls[i].target, lazy);
		uint8_t *at = put(lazy, "\x4c\x8d\x1d", 3, &calls[i]); // lea call, %r11
		put(at, "\xff\x25", 2, enter);
	}
	return mprotect(m->at, m->code, PROT_READ | PROT_EXEC) == 0;
}

int same(uintptr_t address, const void *file, size_t bytes)
{
	uint8_t loaded[32];
	struct iovec local = {loaded, bytes}, remote = {(void *)address, bytes};
	return bytes <= sizeof loaded && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes &&
	       memcmp(loaded, file, bytes) == 0;
}

// redirect writes the jumps over the entry points of an object that is loaded at
// base. On failure none of them is written.
static const char *redirect(uintptr_t base, const uint8_t *file, const struct runtime *r, struct island **used)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct function *f = &r->functions[i];
		size_t bytes = f->bytes < 16 ? f->bytes : 16;
		if (!same(base + f->address, file + f->offset, bytes))
			return "its file is not what is loaded, or process_vm_readv is forbidden";
	}
	uintptr_t first = base + r->functions[0].address, last = base + r->functions[r->n - 1].address;
	uintptr_t from = first & -(uintptr_t)pages(1), to = pages(last + STUB_BYTES);
	struct island *m = last - first < SPAN ? take_island(first, r->n) : NULL;
	if (!m || !fill_island(m, r))
		return "no memory near it";
	// Nothing of the object runs yet, so its code need not be executable meanwhile.
	if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))
		return "its code cannot be written";
	for (size_t i = 0; i < r->n; i++) {
		uint8_t *entry = (uint8_t *)base + r->functions[i].address;
		if (memcmp(entry, "\xf3\x0f\x1e\xfa", 4) == 0) // endbr64
			entry += 4;
		put(entry, "\xe9", 1, m->at + i * STUB_BYTES); // jmp stub
	}
	if (mprotect((void *)from, to - from, PROT_READ | PROT_EXEC))
		return "its code cannot be made executable again";
	m->used = 1;
	*used = m;
	return NULL;
}

// look looks at an object's file, and leads the static runtime in it to ours.
static struct island *look(uintptr_t base, const char *path)
{
	struct stat st;
	struct runtime r;
	struct island *used = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
		close(fd);
		return NULL;
	}
	size_t bytes = (size_t)st.st_size;
	uint8_t *file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return NULL;
	if (find_runtime(file, bytes, &r)) {
		const char *wrong = r.major ? redirect(base, file, &r, &used) : "it is older than CUDA 11";
		if (wrong)
			tell("pvdrm: ", path, " has NVIDIA's CUDA runtime in it, and its calls cannot be led to PVDRM's: ", wrong,
			     "; link it with nvcc -cudart shared", NULL);
		free(r.functions);
	}
	const char *wrong = lead_compilers(base, path, file, bytes);
	if (wrong)
		tell("pvdrm: what ", path, " compiles may have no PTX: ", wrong, NULL);
	munmap(file, bytes);
	return used;
}

// The interface of LD_AUDIT: see rtld-audit(7).

PUBLIC unsigned la_version(unsigned version)
{
	Dl_info info;
	const char *slash, *log = getenv("PVDRM_CUDA_LOG"), *libraries = getenv("PVDRM_CUDA_STUBS");
	if (!dladdr(directory, &info) || !(slash = strrchr(info.dli_fname, '/')) || (size_t)(slash - info.dli_fname) + 2 > sizeof directory)
		return 0; // then the loader goes on without us
	memcpy(directory, info.dli_fname, (size_t)(slash - info.dli_fname) + 1);
	log_errors = log && (strcmp(log, "errors") == 0 || strcmp(log, "calls") == 0);
	stubs = libraries && strcmp(libraries, "1") == 0;
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// The loader asks before it looks for a library anywhere, and copies what we return.
PUBLIC char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
	static char path[sizeof directory + 64];
	(void)cookie;
	const char *ours = flag == LA_SER_ORIG ? find_ours(name, directory, stubs, path, sizeof path) : NULL;
	return (char *)(ours ? ours : name);
}

PUBLIC unsigned la_objopen(struct link_map *object, Lmid_t namespace, uintptr_t *cookie)
{
	struct island *m = NULL;
	if (namespace == LM_ID_BASE)
		m = look(object->l_addr, object->l_name[0] ? object->l_name : "/proc/self/exe");
	*cookie = (uintptr_t)m;
	return 0;
}

// Destructors have run, but at the end of the program threads may still be in the island, so it stays.
PUBLIC unsigned la_objclose(uintptr_t *cookie)
{
	if (*cookie)
		((struct island *)*cookie)->used = 0;
	return 0;
}
