/*
 * Runs GLoop programs from C: kernels that include gloop.h. libgloop.so calls the CUDA driver API of
 * the process (libcuda.so.1), and serves files and sockets with its user's rights.
 *
 *     struct gloop_config config = {.function = kernel, .grid = {1}, .block = {32}};
 *     void *args[] = {NULL, &port, &rooms, &clients}; // the first place is for the gloop::Launch
 *     int error = gloop_run(&config, args, NULL);
 */
#ifndef GLOOP_HOST_H
#define GLOOP_HOST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of cuMemHostAlloc in which kernels have buffers: it is read and written in place. */
struct gloop_memory {
	void *host;
	unsigned long long device; /* of cuMemHostGetDevicePointer */
	size_t bytes;
};

/* What runs in a context have allocated, kept for the next ones. Several runs may use it at the same time. */
typedef struct gloop_pool gloop_pool;

/* A program. Members that are 0 have the defaults of the Go runtime (frontend/gloop/host). */
struct gloop_config {
	void *function;    /* CUfunction, of the current context */
	unsigned grid[3];  /* logical blocks */
	unsigned block[3]; /* threads of a block */
	unsigned shared;   /* dynamic shared memory of a block, bytes */
	unsigned blocks;   /* physical blocks; 0: as many as run at once, but 8 a multiprocessor */

	const struct gloop_memory *memory;
	unsigned memories;

	unsigned long long slice_ns, spin_ns, relaunch_ns, timeout_ns;
	unsigned path_max, handles, threads, every;

	/* Called, if it is not NULL, when the kernel has opened a server, by a thread of the library. */
	void (*bound)(void *user, unsigned port);
	void *user;

	/* Not NULL: the program ends when this becomes other than 0. */
	const volatile int *cancel;

	/* Not NULL: a pool of the current context (gloop_pool_create). */
	gloop_pool *pool;
};

struct gloop_stats {
	unsigned long long launches, callbacks, looks, requests;
	unsigned long long direct, bounced; /* bytes to or from granted memory, and through bounce buffers */
	int cuda;                           /* GLOOP_CUDA: the CUresult */
	unsigned block;                     /* physical block of an error */
};

enum gloop_error {
	GLOOP_OK,
	GLOOP_CUDA,      /* a call of the driver failed: gloop_stats.cuda */
	GLOOP_INVALID,   /* the configuration makes no sense */
	GLOOP_SYSTEM,    /* no memory or no threads */
	GLOOP_SLOTS,     /* a block had more than 64 callbacks pending */
	GLOOP_COALESCED, /* threads of a block made different calls */
	GLOOP_VERSION,   /* the kernel was compiled with another gloop.h */
	GLOOP_PROTOCOL,  /* the kernel broke the protocol of slots */
	GLOOP_CANCELED,  /* gloop_config.cancel */
};

#define GLOOP_EXPORT __attribute__((visibility("default")))

/* Runs a program until no callback is left. stats may be NULL. */
GLOOP_EXPORT int gloop_run(const struct gloop_config *config, void **args, struct gloop_stats *stats);

/* Makes a pool of the current context, and frees one that no run uses any more. */
GLOOP_EXPORT int gloop_pool_create(gloop_pool **pool);
GLOOP_EXPORT void gloop_pool_destroy(gloop_pool *pool);

/* Makes what a run of a program allocates, and leaves it in gloop_config.pool, where the run itself, and others that need
 * no more, find it. stats may be NULL. */
GLOOP_EXPORT int gloop_prepare(const struct gloop_config *config, struct gloop_stats *stats);

/* What an error means, in a few words. */
GLOOP_EXPORT const char *gloop_message(int error);

#ifdef __cplusplus
}
#endif

#endif
