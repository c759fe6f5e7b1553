// What the entry points of libnvidia-ml.so.1 are made with. Every argument of NVML is an integer or
// a pointer, and so one word of the x86-64 calling convention; the upper half of a 32-bit one is
// undefined and is cut off by Go.
#ifndef PVDRM_NVML_H
#define PVDRM_NVML_H

#include <stdint.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "libnvidia-ml.so.1 is for Linux on x86-64"
#endif

#define PVDRM_MAX_ARGS 12

int pvdrm_enter(uint32_t symbol, uint64_t *args);

extern const uint64_t pvdrm_table;
extern const char *const pvdrm_words[]; // of nvmlErrorString, by nvmlReturn_t
extern const int pvdrm_words_count;
extern const char *const pvdrm_other_word;

typedef uint64_t W;
#define PUBLIC __attribute__((visibility("default")))
#define CALL(id, ...)                                        \
	{                                                    \
		W v[PVDRM_MAX_ARGS] = {__VA_ARGS__};         \
		return pvdrm_enter(id, v);                   \
	}

#define ENTRY0(id, f) PUBLIC int f(void) CALL(id, 0)
#define ENTRY1(id, f) PUBLIC int f(W a) CALL(id, a)
#define ENTRY2(id, f) PUBLIC int f(W a, W b) CALL(id, a, b)
#define ENTRY3(id, f) PUBLIC int f(W a, W b, W c) CALL(id, a, b, c)
#define ENTRY4(id, f) PUBLIC int f(W a, W b, W c, W d) CALL(id, a, b, c, d)
#define ENTRY5(id, f) PUBLIC int f(W a, W b, W c, W d, W e) CALL(id, a, b, c, d, e)
#define ENTRY6(id, f) PUBLIC int f(W a, W b, W c, W d, W e, W g) CALL(id, a, b, c, d, e, g)

#endif
