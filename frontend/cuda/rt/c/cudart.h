// libcudart.so.11.0, libcudart.so.12 and libcudart.so.13: the CUDA runtime API on the
// driver API of PVDRM's libcuda.so.1. It is compiled once for each, with MAJOR 11,
// 12 or 13: the layouts of some structures and some signatures differ.
//
// What it adds to the driver API: kernels and variables by the addresses that they
// have in the program (module.c), a context that is there when a thread needs one
// (context.c) and an error that each thread keeps (error.c). It keeps no pointer of
// the program's that it reads itself; where it must read or write the program's
// memory it does so by fetch and store, to which a wrong pointer is an error.
//
// module.c has the only lock.
#ifndef PVDRM_CUDART_H
#define PVDRM_CUDART_H

#include "driver.h"

#if !defined(__x86_64__) || !defined(__linux__)
#error "libcudart is for Linux on x86-64"
#endif
#if MAJOR != 11 && MAJOR != 12 && MAJOR != 13
#error "compile with -DMAJOR=11, 12 or 13"
#endif

#define RUNTIME_VERSION (MAJOR == 11 ? 11080 : MAJOR == 12 ? 12080 : 13000)

// Errors of the runtime API that do not come from the driver; see errors.def.
enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	MEMORY_ALLOCATION = 2,
	INVALID_PITCH_VALUE = 12,
	INVALID_SYMBOL = 13,
	INVALID_TEXTURE = 18,
	INVALID_TEXTURE_BINDING = 19,
	INVALID_CHANNEL_DESCRIPTOR = 20,
	INVALID_MEMCPY_DIRECTION = 21,
	INVALID_SURFACE = 37,
	MISSING_CONFIGURATION = 52,
	INVALID_DEVICE_FUNCTION = 98,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	SYMBOL_NOT_FOUND = 500,
	NOT_READY = 600,
	CONTEXT_IS_DESTROYED = 709,
	NOT_SUPPORTED = 801,
};

// cudaMemcpyKind
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

// Arguments that the runtime API has by value.
struct dim3 { unsigned x, y, z; };
struct extent { size_t width, height, depth; };
struct pos { size_t x, y, z; };
struct pitched { void *ptr; size_t pitch, xsize, ysize; };
struct channel { int bits[4], kind; }; // cudaChannelFormatDesc

// cudaMemcpy3DParms
struct copy {
	void *from_array;
	struct pos from_pos;
	struct pitched from;
	void *to_array;
	struct pos to_pos;
	struct pitched to;
	struct extent extent;
	int kind;
};

// Entry points. FREE is one that needs no context, API one that does, WITH_DEVICES
// one that needs the driver. BOTH has a
// second name, for programs whose default stream is the thread's: ON gives
// the stream that is meant.
#define PUBLIC __attribute__((visibility("default")))
#define FREE(name, params, call) \
	PUBLIC int name params { return done(#name, (int)(call)); }
#define WITH_DEVICES(name, params, call)                 \
	PUBLIC int name params                           \
	{                                                \
		int r = initialize();                    \
		return done(#name, r ? r : (int)(call)); \
	}
#define API(name, params, call)                          \
	PUBLIC int name params                           \
	{                                                \
		int r = enter();                         \
		return done(#name, r ? r : (int)(call)); \
	}
#define BOTH(name, suffix, params, call)                           \
	PUBLIC int name params                                     \
	{                                                          \
		enum { per_thread = 0 };                           \
		int r = enter();                                   \
		return done(#name, r ? r : (int)(call));           \
	}                                                          \
	PUBLIC int name##suffix params                             \
	{                                                          \
		enum { per_thread = 1 };                           \
		int r = enter();                                   \
		return done(#name #suffix, r ? r : (int)(call));   \
	}
#define PER_THREAD ((CUstream)2) // CU_STREAM_PER_THREAD
#define ON(stream) (per_thread && (stream) == NULL ? PER_THREAD : (CUstream)(stream))

// error.c
int done(const char *name, int result);
int say(int result, const char *why);
int fetch(void *to, const void *from, size_t bytes);
int store(void *to, const void *from, size_t bytes);

// context.c
int enter(void);
int device_now(void);
int is_device(int device);
int in_primary(void);
int initialize(void);
void look_again(void);
int primary_of(int device, CUcontext *context);

// device.c
int newer(const char *name, void **function);

// texture.c
int element_bytes(void *array, size_t *bytes);

// module.c
int kernel_of(const void *function, CUfunction *kernel);
int symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes);
const void *function_of(CUfunction kernel);

void forget_managed(void);

// reference is what is known of a reference to a texture or surface.
struct reference { int normalized; uint64_t object; size_t offset; };
int reference_of(const void *symbol, struct reference *now);
int bind_reference(const void *symbol, uint64_t object, size_t offset, uint64_t *before);

// copy.c
int kinds(int kind, uint32_t *to, uint32_t *from);
int as_copy3d(struct copy3d *c, const struct copy *copy);
int place_in(const void *symbol, size_t bytes, size_t offset, void **at);

#endif
