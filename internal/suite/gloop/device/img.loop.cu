#include "loop.h"
#include "img.h"

namespace fs = gloop::fs;

#define IMG_CHUNK 64 /* images that a callback looks at */
#define IMG_ROOM (IMG_CHUNK * IMG_BYTES)
#define IMG_AHEAD 2  /* chunks that a block has under way */

/*
 * Each physical block has room for IMG_AHEAD chunks of the database, which the host reads them to, and for
 * one that the block compares.
 */
struct Matching {
	const char *queries, *database; /* paths */
	u8 *room, *chunk;
	u32 *wanted;                    /* the queries */
	u32 *found;                     /* of each query */
	i64 *failed;
	u32 all, images;                /* queries, at most IMG_CHUNK, and images of the database */
	u32 each, threshold;            /* chunks that a logical block has */
};

static __device__ void fail(const Matching &p, i64 error) {
	if (thread() == 0 && p.failed[0] == 0)
		p.failed[0] = error < 0 ? error : -5; /* EIO: too few bytes */
}

static __device__ u8 *roomOf(const Matching &p, u32 way) { return p.room + ((u64)block() * IMG_AHEAD + way) * IMG_ROOM; }

/* Compares a chunk with those queries that no earlier image is found for. */
static __device__ void compare(const Matching &p, const u8 *chunk, u32 first, u32 n) {
	const u32 *wanted = global(p.wanted);
	u32 *found = global(p.found);
	for (u32 q = 0; q < p.all; q++)
		if (*(volatile u32 *)&found[q] >= first)
			imgMatch(wanted + q * (IMG_BYTES / 4), (const u32 *)chunk, first, n, p.threshold, &found[q]);
}

/* The chunk with a number and then each IMG_AHEAD-th one of the logical block. */
static __device__ void images(Loop &loop, Matching p, int file, u32 number, u32 way) {
	u32 first = number * IMG_CHUNK;
	if (number >= (loop.block().x + 1) * p.each || first >= p.images)
		return fs::close(loop, file, [=](Loop &, int) {});
	u32 n = least(IMG_CHUNK, p.images - first);
	fs::read(loop, file, (u64)first * IMG_BYTES, (u64)n * IMG_BYTES, roomOf(p, way), [=](Loop &loop, i64 got) {
		if (got != (i64)n * IMG_BYTES) {
			fail(p, got);
			return fs::close(loop, file, [=](Loop &, int) {});
		}
		u8 *chunk = global(p.chunk + (u64)block() * IMG_ROOM);
		fetch(chunk, roomOf(p, way), n * IMG_BYTES);
		images(loop, p, file, number + IMG_AHEAD, way);
		compare(p, chunk, first, n);
		barrier(); /* the chunk that is fetched next overwrites this one */
	});
}

/* A logical block for some chunks of the database. */
KERNEL img(gloop::Launch launch, Matching p) {
	gloop::run(launch, [=](Loop &loop) {
		for (u32 way = 0; way < IMG_AHEAD; way++)
			fs::open(loop, p.database, fs::kReadOnly, [=](Loop &loop, int file) {
				if (file < 0)
					fail(p, file);
				else
					images(loop, p, file, loop.block().x * p.each + way, way);
			});
	});
}

/* One logical block reads the queries. */
KERNEL img_queries(gloop::Launch launch, Matching p) {
	gloop::run(launch, [=](Loop &loop) {
		fs::open(loop, p.queries, fs::kReadOnly, [=](Loop &loop, int file) {
			if (file < 0)
				return fail(p, file);
			fs::read(loop, file, 0, (u64)p.all * IMG_BYTES, roomOf(p, 0), [=](Loop &loop, i64 n) {
				if (n == (i64)p.all * IMG_BYTES)
					fetch(p.wanted, roomOf(p, 0), (u32)n);
				else
					fail(p, n);
				fs::close(loop, file, [=](Loop &, int) {});
			});
		});
	});
}
