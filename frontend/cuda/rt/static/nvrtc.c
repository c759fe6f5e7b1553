// Programs that compile at run time ask NVRTC for a real architecture (sm_75) and load the machine
// code, or have nvJitLink make machine code of PTX and other inputs. Where these are to add line
// information, they put the PTX into that code, too, and PVDRM's driver takes it from there
// (frontend/cuda/capi/cubin.go). So nvrtcCompileProgram and nvJitLinkCreate get this option.
//
// Nothing of NVIDIA's code changes. The symbol of the function in the library's dynamic symbol table
// gets another address, before anything is bound to it: that of a stub, which calls ours with the
// function itself as a further argument.
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

// compile is nvrtcCompileProgram or nvJitLinkCreate; the former's first argument is a program, the latter's
// the place for a handle.
typedef int compile(void *program, int n, const char *const *options);

enum { MOST_OPTIONS = 1024 };

// is tells whether an option is a flag of a short or a long name.
static int is(const char *option, const char *brief, const char *name)
{
	return strcmp(option, brief) == 0 || strcmp(option, name) == 0;
}

// real tells whether an option asks for machine code: -arch=sm_75, or sm_75 behind -arch.
static int real(const char *option)
{
	const char *value = strchr(option, '=');
	if (!value)
		return strncmp(option, "sm_", 3) == 0;
	size_t name = (size_t)(value - option);
	return strncmp(value, "=sm_", 4) == 0 &&
	       ((name == 5 && memcmp(option, "-arch", name) == 0) || (name == 6 && memcmp(option, "--arch", name) == 0) ||
	        (name == 18 && memcmp(option, "--gpu-architecture", name) == 0));
}

// pvdrm_compile takes the place of a function, and original is the library's.
int pvdrm_compile(void *program, int n, const char *const *options, compile *original)
{
	int wanted = 0;
	if (n <= 0 || n > MOST_OPTIONS || !options)
		return original(program, n, options);
	for (int i = 0; i < n; i++) {
		const char *o = options[i];
		// A second -lineinfo is an error, and debug information has the PTX already. With -ptx, nvJitLink
		// makes PTX.
		if (!o || is(o, "-lineinfo", "--generate-line-info") || is(o, "-G", "--device-debug") || is(o, "-g", "-ptx"))
			return original(program, n, options);
		wanted = wanted || real(o);
	}
	if (!wanted)
		return original(program, n, options);
	const char *more[n + 1];
	memcpy(more, options, (size_t)n * sizeof *more);
	more[n] = "-lineinfo";
	return original(program, n + 1, more);
}

// stub is code that puts the function that it stands for into the fourth argument.
struct stub {
	struct stub *next;
	uintptr_t original;
	uint8_t code[32];
};

// The loader calls us under its lock. A library that is loaded again takes its stub again, so stubs
// stay.
static struct stub *stubs;

static struct stub *stub_for(uintptr_t original)
{
	for (struct stub *s = stubs; s; s = s->next)
		if (s->original == original)
			return s;
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct stub *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return NULL;
	uintptr_t ours = (uintptr_t)pvdrm_compile;
	s->next = stubs;
	s->original = original;
	memcpy(s->code, "\xf3\x0f\x1e\xfa", 4);  // endbr64
	memcpy(s->code + 4, "\x48\xb9", 2);       // mov original, %rcx
	memcpy(s->code + 6, &original, 8);
	memcpy(s->code + 14, "\x48\xb8", 2);      // mov ours, %rax
	memcpy(s->code + 16, &ours, 8);
	memcpy(s->code + 24, "\xff\xe0", 2);      // jmp *%rax
	if (mprotect(s, bytes, PROT_READ | PROT_EXEC)) {
		munmap(s, bytes);
		return NULL;
	}
	stubs = s;
	return s;
}

// lead leads a function that an object at base exports to ours.
static const char *lead(uintptr_t base, struct exported *f)
{
	uintptr_t entry = base + f->entry;
	if (!same(entry, &f->symbol, sizeof f->symbol))
		return "its file is not what is loaded, or process_vm_readv is forbidden";
	struct stub *stub = stub_for(base + f->symbol.st_value);
	if (!stub)
		return "no memory";
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = entry & -page, to = (entry + sizeof f->symbol + page - 1) & -page;
	int before = (f->flags & PF_R ? PROT_READ : 0) | (f->flags & PF_W ? PROT_WRITE : 0) | (f->flags & PF_X ? PROT_EXEC : 0);
	if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))
		return "its symbols cannot be written";
	f->symbol.st_value = (uintptr_t)stub->code - base; // which the loader adds
	memcpy((void *)entry, &f->symbol, sizeof f->symbol);
	return mprotect((void *)from, to - from, before) ? "its symbols cannot be made read-only again" : NULL;
}

// The libraries, by how the names of their files begin (PyTorch's is libnvrtc-HASH.so), and their functions.
// Programs that were compiled against nvJitLink.h call one with the version in its name.
static const struct {
	const char *library, *function;
} compilers[] = {
	{"libnvrtc", "nvrtcCompileProgram"},
	{"libnvJitLink", "nvJitLinkCreate"},
	{"libnvJitLink", "__nvJitLinkCreate_*"},
};

const char *lead_compilers(uintptr_t base, const char *path, const uint8_t *file, size_t bytes)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
		struct exported f;
		size_t next = 0;
		if (strncmp(name, compilers[i].library, strlen(compilers[i].library)))
			continue;
		while (find_exported(file, bytes, compilers[i].function, &next, &f)) {
			const char *wrong = lead(base, &f);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}
