// The common part of the stubs: takes the arguments of a function apart, as its pattern says, and calls
// libcuda.so.1. A thread without a context gets the primary one, as from NVIDIA's libraries.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "stub.h"

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201 }; // CUDA_ERROR_*
static const char RETURNS[] = "tn"; // in patterns: a text, a number
enum { REGISTERS = 6, FLOAT_REGISTERS = 8 };

int cuPvdrmLibraryCall(uint64_t *words);
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);

// pvdrm_stub keeps the registers with arguments: six for words, and eight for floats behind them.
__asm__(".text\n.hidden pvdrm_stub\n.globl pvdrm_stub\n.type pvdrm_stub,@function\npvdrm_stub:\n"
	"\tpush %rbp\n\tmov %rsp,%rbp\n\tsub $112,%rsp\n"
	"\tmov %rdi,(%rsp)\n\tmov %rsi,8(%rsp)\n\tmov %rdx,16(%rsp)\n\tmov %rcx,24(%rsp)\n\tmov %r8,32(%rsp)\n\tmov %r9,40(%rsp)\n"
	"\tmovsd %xmm0,48(%rsp)\n\tmovsd %xmm1,56(%rsp)\n\tmovsd %xmm2,64(%rsp)\n\tmovsd %xmm3,72(%rsp)\n"
	"\tmovsd %xmm4,80(%rsp)\n\tmovsd %xmm5,88(%rsp)\n\tmovsd %xmm6,96(%rsp)\n\tmovsd %xmm7,104(%rsp)\n"
	"\tmov %eax,%edi\n\tmov %rsp,%rsi\n\tlea 16(%rbp),%rdx\n\tcall pvdrm_called\n\tleave\n\tret\n.size pvdrm_stub,.-pvdrm_stub\n");

// The runtime's current device is a matter of the runtime, if the program has one.
static int make_current(void)
{
	int (*cuda_free)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "cudaFree");
	if (cuda_free)
		return cuda_free(NULL) == 0;
	void *context;
	return !cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context);
}

static void arguments(uint64_t *words, uint32_t index, const uint64_t *registers, const uint64_t *stack)
{
	const char *pattern = pvdrm_patterns[index - pvdrm_first];
	int ints = 0, floats = 0;
	memset(words, 0, PVDRM_MAX_ARGS * sizeof *words);
	words[0] = index;
	for (int i = 0; pattern[i] && !strchr(RETURNS, pattern[i]); i++) {
		if (pattern[i] == 'w')
			words[1 + i] = ints < REGISTERS ? registers[ints++] : *stack++;
		else
			words[1 + i] = registers[REGISTERS + floats++]; // there are never more of them than registers
		if (pattern[i] == 'f')
			words[1 + i] &= 0xffffffff;
	}
}

__attribute__((visibility("hidden"), used)) uint64_t pvdrm_called(uint32_t index, const uint64_t *registers, const uint64_t *stack)
{
	uint64_t words[PVDRM_MAX_ARGS];
	arguments(words, index, registers, stack);
	int r = cuPvdrmLibraryCall(words);
	if ((r == NOT_INITIALIZED || r == INVALID_CONTEXT) && !words[PVDRM_MAX_ARGS - 1] && make_current()) {
		arguments(words, index, registers, stack);
		r = cuPvdrmLibraryCall(words);
	}
	if (words[PVDRM_MAX_ARGS - 1])
		return words[0];
	fprintf(stderr, "%s of PVDRM: the driver did not take a call: CUDA error %d; PVDRM_CUDA_LOG=errors says why\n", pvdrm_library, r);
	const char *pattern = pvdrm_patterns[index - pvdrm_first];
	switch (*pattern ? pattern[strlen(pattern) - 1] : 0) {
	case 't': // which programs print
		return (uintptr_t)"no text: the driver did not take the call";
	case 'n':
		return 0;
	}
	return pvdrm_failed;
}
