#include "loop.h"
#include "img.h"

namespace fs = gloop::fs;

#define IMG_CHUNK 64 /* images that a callback looks at */

struct Matching {
	const char *queries, *database; /* paths */
	u8 *room;                       /* of each physical block: its queries and a chunk */
	u32 images, threshold;
	u32 *found;                     /* of each query */
	i64 *failed;
	u32 all, each;                  /* queries, and how many of them a logical block has */
};

static __device__ void fail(const Matching &p, i64 error) {
	if (thread() == 0 && p.failed[0] == 0)
		p.failed[0] = error < 0 ? error : -5; /* EIO: too few bytes */
}

static __device__ u8 *roomOf(const Matching &p) { return p.room + (u64)block() * (IMG_CHUNK + p.each) * IMG_BYTES; }

/* The queries of a logical block. */
static __device__ u32 firstOf(Loop &loop, const Matching &p) { return loop.block().x * p.each; }
static __device__ u32 countOf(Loop &loop, const Matching &p) { return least(p.each, p.all - firstOf(loop, p)); }

/* Compares a chunk with those queries that are not found yet, and tells whether any is left. */
static __device__ bool compare(Loop &loop, const Matching &p, u32 first, u32 n) {
	u32 *found = p.found + firstOf(loop, p), queries = countOf(loop, p);
	const u32 *room = (const u32 *)roomOf(p), *chunk = room + p.each * (IMG_BYTES / 4);
	for (u32 q = 0; q < queries; q++)
		if (*(volatile u32 *)&found[q] >= first)
			imgMatch(room + q * (IMG_BYTES / 4), chunk, first, n, p.threshold, &found[q]);
	barrier();
	bool left = false;
	for (u32 q = 0; q < queries; q++)
		left = left || *(volatile u32 *)&found[q] == IMG_NONE;
	return left;
}

static __device__ void images(Loop &loop, Matching p, int file, u32 first) {
	u32 n = first < p.images ? least(IMG_CHUNK, p.images - first) : 0;
	if (n == 0) {
		fs::close(loop, file, [=](Loop &, int) {});
		return;
	}
	fs::read(loop, file, (u64)first * IMG_BYTES, (u64)n * IMG_BYTES, roomOf(p) + p.each * IMG_BYTES, [=](Loop &loop, i64 got) {
		if (got != (i64)n * IMG_BYTES) {
			fail(p, got);
			fs::close(loop, file, [=](Loop &, int) {});
			return;
		}
		images(loop, p, file, compare(loop, p, first, n) ? first + IMG_CHUNK : p.images);
	});
}

/* A logical block for some queries: reads them, and then the database until all are found. */
static __device__ void match(Loop &loop, Matching p) {
	fs::open(loop, p.queries, fs::kReadOnly, [=](Loop &loop, int file) {
		if (file < 0) {
			fail(p, file);
			return;
		}
		u64 size = (u64)countOf(loop, p) * IMG_BYTES;
		fs::read(loop, file, (u64)firstOf(loop, p) * IMG_BYTES, size, roomOf(p), [=](Loop &loop, i64 n) {
			fs::close(loop, file, [=](Loop &loop, int) {
				if (n != (i64)size) {
					fail(p, n);
					return;
				}
				fs::open(loop, p.database, fs::kReadOnly, [=](Loop &loop, int database) {
					if (database < 0)
						fail(p, database);
					else
						images(loop, p, database, 0);
				});
			});
		});
	});
}

KERNEL img(gloop::Launch launch, Matching p) {
	gloop::run(launch, [=](Loop &loop) { match(loop, p); });
}
