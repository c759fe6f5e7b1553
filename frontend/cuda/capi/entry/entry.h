// What the entry points of libcuda.so.1 are made with. Every argument of the
// driver API is an integer or a pointer, and so one word of the x86-64 calling
// convention; the upper half of a 32-bit one is undefined and is cut off by Go.
#ifndef PVDRM_ENTRY_H
#define PVDRM_ENTRY_H

#include <stdint.h>
#include <string.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "libcuda.so.1 is for Linux on x86-64"
#endif

#define PVDRM_MAX_ARGS 40

int pvdrm_enter(uint32_t symbol, uint64_t *args);

extern void *const pvdrm_symbols[];
extern const uint64_t pvdrm_table;

typedef uint64_t W;
#define PUBLIC __attribute__((visibility("default"))) int
#define CALL(id, ...)                            \
	{                                        \
		W v[PVDRM_MAX_ARGS] = {__VA_ARGS__}; \
		return pvdrm_enter(id, v);       \
	}

#define ENTRY0(id, f) PUBLIC f(void) CALL(id, 0)
#define ENTRY1(id, f) PUBLIC f(W a) CALL(id, a)
#define ENTRY2(id, f) PUBLIC f(W a, W b) CALL(id, a, b)
#define ENTRY3(id, f) PUBLIC f(W a, W b, W c) CALL(id, a, b, c)
#define ENTRY4(id, f) PUBLIC f(W a, W b, W c, W d) CALL(id, a, b, c, d)
#define ENTRY5(id, f) PUBLIC f(W a, W b, W c, W d, W e) CALL(id, a, b, c, d, e)
#define ENTRY6(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g) CALL(id, a, b, c, d, e, g)
#define ENTRY7(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h) CALL(id, a, b, c, d, e, g, h)
#define ENTRY8(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i) CALL(id, a, b, c, d, e, g, h, i)
#define ENTRY9(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j) CALL(id, a, b, c, d, e, g, h, i, j)
#define ENTRY10(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j, W k) CALL(id, a, b, c, d, e, g, h, i, j, k)
#define ENTRY11(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j, W k, W l) CALL(id, a, b, c, d, e, g, h, i, j, k, l)
#define ENTRY12(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j, W k, W l, W m) CALL(id, a, b, c, d, e, g, h, i, j, k, l, m)
#define ENTRY15(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j, W k, W l, W m, W n, W o, W p) CALL(id, a, b, c, d, e, g, h, i, j, k, l, m, n, o, p)

// A structure of 64 bytes that comes by value lies on the stack, behind the words in registers, of
// which there are six whether the function has so many arguments or not.
#define ENTRY14(id, f) PUBLIC f(W a, W b, W c, W d, W e, W g, W h, W i, W j, W k, W l, W m, W n, W o) CALL(id, a, b, c, d, e, g, h, i, j, k, l, m, n, o)

// The words are the caller's, and PVDRM_MAX_ARGS.
#define ENTRY_WORDS(id, f) PUBLIC f(W *words) { return pvdrm_enter(id, words); }

// The third word is who calls.
#define ENTRY2_CALLER(id, f) PUBLIC f(W a, W b) CALL(id, a, b, (W)__builtin_return_address(0))

// A float comes in another register, and goes on as its bits.
static inline W bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

#define ENTRY_IF(id, f) PUBLIC f(W a, float x) CALL(id, a, bits_of(x))
#define ENTRY_IFF(id, f) PUBLIC f(W a, float x, float y) CALL(id, a, bits_of(x), bits_of(y))
#define ENTRY_IIF(id, f) PUBLIC f(W a, W b, float x) CALL(id, a, b, bits_of(x))

#endif
