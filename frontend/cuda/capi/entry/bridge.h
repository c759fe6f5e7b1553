// What libcuda.so.1, which a program loads, gives to libpvdrm-cuda.so, which it
// loads itself. Both are built together.
#ifndef PVDRM_BRIDGE_H
#define PVDRM_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

// pvdrm_program is libcuda.so.1 as the Go library sees it. It lives for ever.
struct pvdrm_program {
	uint64_t table;                                                       // libcuda.TableSum of the entry points, and of pvdrmCall
	void *const *symbols;                                                 // their addresses
	size_t (*print)(const void *text, size_t bytes);                      // to stdout of the program
	uint64_t (*invoke)(uint64_t fn, uint64_t a, uint64_t b, uint64_t c); // calls a host function
};

// Go cannot call through a pointer to a C function itself.

static inline uint64_t pvdrm_symbol(const struct pvdrm_program *p, uint32_t i) { return (uint64_t)(uintptr_t)p->symbols[i]; }

static inline size_t pvdrm_print(const struct pvdrm_program *p, const void *text, size_t bytes) { return p->print(text, bytes); }

static inline uint64_t pvdrm_invoke(const struct pvdrm_program *p, uint64_t fn, uint64_t a, uint64_t b, uint64_t c)
{
	return p->invoke(fn, a, b, c);
}

#endif
