#include "loop.h"
#include "img.h"

namespace fs = gloop::fs;

#define IMG_CHUNK 64 /* images that a callback looks at */

struct Matching {
	const char *queries, *database; /* paths */
	u8 *room;                       /* of each physical block: an image and a chunk */
	u32 images, threshold;
	u32 *found;                     /* of each query */
	i64 *failed;
};

static __device__ void fail(const Matching &p, i64 error) {
	if (thread() == 0 && p.failed[0] == 0)
		p.failed[0] = error < 0 ? error : -5; /* EIO: too few bytes */
}

static __device__ u8 *roomOf(const Matching &p) { return p.room + (u64)block() * (IMG_CHUNK + 1) * IMG_BYTES; }

static __device__ void images(Loop &loop, Matching p, int file, u32 first) {
	u32 n = first < p.images ? least(IMG_CHUNK, p.images - first) : 0;
	u32 query = loop.block().x;
	if (n == 0) {
		fs::close(loop, file, [=](Loop &, int) {});
		return;
	}
	u8 *room = roomOf(p);
	fs::read(loop, file, (u64)first * IMG_BYTES, (u64)n * IMG_BYTES, room + IMG_BYTES, [=](Loop &loop, i64 got) {
		if (got != (i64)n * IMG_BYTES) {
			fail(p, got);
			fs::close(loop, file, [=](Loop &, int) {});
			return;
		}
		imgMatch((const u32 *)room, (const u32 *)(room + IMG_BYTES), first, n, p.threshold, &p.found[query]);
		barrier();
		bool done = *(volatile u32 *)&p.found[query] != IMG_NONE;
		images(loop, p, file, done ? p.images : first + IMG_CHUNK);
	});
}

/* A logical block for each query: reads it, and then the database until it is found. */
static __device__ void match(Loop &loop, Matching p) {
	fs::open(loop, p.queries, fs::kReadOnly, [=](Loop &loop, int file) {
		if (file < 0) {
			fail(p, file);
			return;
		}
		fs::read(loop, file, (u64)loop.block().x * IMG_BYTES, IMG_BYTES, roomOf(p), [=](Loop &loop, i64 n) {
			fs::close(loop, file, [=](Loop &loop, int) {
				if (n != IMG_BYTES) {
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
