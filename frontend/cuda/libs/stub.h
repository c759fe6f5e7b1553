// What the stubs of NVIDIA's libraries are made with. A function loads its number and goes to stub.c,
// which hands its arguments, as they came in registers and on the stack, to libcuda.so.1.
#ifndef PVDRM_STUB_H
#define PVDRM_STUB_H

#include <stdint.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "the stubs are for Linux on x86-64"
#endif

#define STUB(index, name)                                                              \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"     \
		"\tmovl $" #index ",%eax\n\tjmp pvdrm_stub\n.size " #name ",.-" #name "\n");

#define PVDRM_MAX_ARGS 40 // as libcuda.so.1 has it

extern const char pvdrm_library[];
extern const uint32_t pvdrm_first;           // index of the first function
extern const uint32_t pvdrm_failed;          // the library's status of an internal error
extern const char *const pvdrm_patterns[];   // of each function: w for a word, f for a float, d for a double, and t or n behind them if it returns a text or a number

#endif
