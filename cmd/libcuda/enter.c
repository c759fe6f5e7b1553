// The way from C into Go, and back for functions of the program.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "_cgo_export.h"
#include "entry.h"

enum { NOT_INITIALIZED = 3, NOT_PERMITTED = 800 }; // CUDA_ERROR_*

static __thread uint64_t self;   // number of this thread, 0 before its first call
static __thread int in_function; // inside of a host function, which must not call us
static atomic_uint_fast64_t last;
static atomic_int forked; // Go's threads are not in this process
static pthread_key_t key;

static void thread_end(void *number)
{
	if (!atomic_load(&forked))
		pvdrmThreadEnd((uint64_t)(uintptr_t)number);
}

static void in_child(void) { atomic_store(&forked, 1); }

// Go's runtime starts when the library is loaded, so a fork counts from then on.
__attribute__((constructor)) static void prepare(void)
{
	pthread_key_create(&key, thread_end);
	pthread_atfork(NULL, NULL, in_child);
}

int pvdrm_enter(uint32_t symbol, uint64_t *args)
{
	if (atomic_load_explicit(&forked, memory_order_relaxed))
		return NOT_INITIALIZED;
	if (in_function)
		return NOT_PERMITTED;
	if (self == 0) {
		self = atomic_fetch_add(&last, 1) + 1;
		pthread_setspecific(key, (void *)(uintptr_t)self);
	}
	return pvdrmCall(symbol, self, args);
}

uint64_t pvdrm_symbol(uint32_t symbol) { return (uint64_t)(uintptr_t)pvdrm_symbols[symbol]; }

size_t pvdrm_print(const void *text, size_t bytes) { return fwrite(text, 1, bytes, stdout); }

uint64_t pvdrm_invoke(uint64_t fn, uint64_t a, uint64_t b, uint64_t c)
{
	in_function = 1;
	uint64_t r = ((uint64_t(*)(uint64_t, uint64_t, uint64_t))(uintptr_t)fn)(a, b, c);
	in_function = 0;
	return r;
}
