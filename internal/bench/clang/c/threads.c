/*
 * Runs kernels on threads. The functions of this file are for one thread at a
 * time: pvdrm_begin, any number of launches, pvdrm_end.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "kernels.h"

/* Items are blocks, tiles of a grid with two dimensions, rows, rows of threads that make four rows
 * each, pairs of tiles beside a diagonal one, or all at once. */
static uint block_items(const struct shape *s)
{
	return s->grid_x;
}

static uint tile_items(const struct shape *s)
{
	return s->grid_x * s->grid_y;
}

static uint row_items(const struct shape *s)
{
	return s->grid_y * s->block_y;
}

static uint strip_items(const struct shape *s)
{
	return row_items(s) * 4;
}

static uint pair_items(const struct shape *s)
{
	return s->grid_x * 2;
}

static uint one_item(const struct shape *s)
{
	(void)s;
	return 1;
}

/* The kernels by name, and how many items a launch has. */
static const struct kernel {
	const char *name;
	uint (*items)(const struct shape *s);
	void (*run)(const void *params, const struct shape *s, uint from, uint to);
} kernels[] = {
#define ROW(name, items) { #name, items, name },
	KERNELS(ROW)
#undef ROW
};

/* What the threads work on. Each launch is a generation of it. */
static struct {
	const struct kernel *kernel; /* NULL: the threads end */
	const void *params;
	struct shape shape;
	uint items, chunk;
	atomic_uint next;	/* item that no thread has taken */
	atomic_uint working;	/* threads that have not seen the end of the items */
	atomic_uint generation; /* written last */
} work;

#define MOST 1024 /* threads */

static pthread_t threads[MOST];
static uint others; /* threads beside the caller */

static void take_items(void)
{
	for (;;) {
		uint from = atomic_fetch_add(&work.next, work.chunk);

		if (from >= work.items)
			return;
		work.kernel->run(work.params, &work.shape, from, least(from + work.chunk, work.items));
	}
}

/* Threads do not sleep between launches, which follow each other at once. */
static void *worker(void *start)
{
	uint seen = (uint)(uintptr_t)start;

	for (;;) {
		while (atomic_load(&work.generation) == seen)
			sched_yield();
		seen++;
		if (!work.kernel)
			return NULL;
		take_items();
		atomic_fetch_sub(&work.working, 1);
	}
}

/* pvdrm_end ends the threads. */
void pvdrm_end(void)
{
	work.kernel = NULL;
	atomic_fetch_add(&work.generation, 1);
	for (; others > 0; others--)
		pthread_join(threads[others - 1], NULL);
}

/* pvdrm_begin starts threads, so that n work with the caller. It returns 0 or an error number. */
int pvdrm_begin(uint n)
{
	uintptr_t now = atomic_load(&work.generation);

	for (others = 0; others + 1 < least(n, MOST); others++) {
		int err = pthread_create(&threads[others], NULL, worker, (void *)now);

		if (err) {
			pvdrm_end();
			return err;
		}
	}
	return 0;
}

/* pvdrm_launch runs a kernel to its end. It returns -1 if there is none of that name. */
int pvdrm_launch(const char *name, const struct shape *shape, const void *params)
{
	for (uint i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (strcmp(kernels[i].name, name) != 0)
			continue;
		work.kernel = &kernels[i];
		work.params = params;
		work.shape = *shape;
		work.items = kernels[i].items(shape);
		/* Some chunks a thread, so that a thread that is late does fewer. */
		work.chunk = work.items / ((others + 1) * 4) + 1;
		atomic_store(&work.next, 0);
		atomic_store(&work.working, others);
		atomic_fetch_add(&work.generation, 1);
		take_items();
		while (atomic_load(&work.working) > 0)
			sched_yield();
		return 0;
	}
	return -1;
}
