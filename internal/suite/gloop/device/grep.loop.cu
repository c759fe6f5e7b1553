#include "loop.h"
#include "grep.h"

namespace fs = gloop::fs;

#define GREP_CHUNK 65536 /* of a file that a callback looks at */
#define GREP_SLACK 33    /* what it looks at beyond that */
#define GREP_ROOM (GREP_CHUNK + 64)

/* A search: paths of files, each of pathBytes with a zero at its end, and room for each physical block. */
struct Search {
	Grep grep;
	const char *paths;
	u8 *room;
	u32 pathBytes;
	i64 *failed; /* the first error of a file, and the file */
};

static __device__ void fail(const Search &p, u32 file, i64 error) {
	if (thread() == 0 && p.failed[0] == 0) {
		p.failed[0] = error;
		p.failed[1] = file;
	}
}

static __device__ void chunk(Loop &loop, Search p, int file, u64 at, u64 size) {
	u64 before = at ? 1 : 0;
	if (at >= size) {
		fs::close(loop, file, [=](Loop &, int) {});
		return;
	}
	u8 *room = p.room + (u64)block() * GREP_ROOM;
	fs::read(loop, file, at - before, GREP_CHUNK + GREP_SLACK + before, room, [=](Loop &loop, i64 n) {
		if (n < 0)
			fail(p, loop.block().x, n);
		if (n <= (i64)before) { /* it has become shorter */
			fs::close(loop, file, [=](Loop &, int) {});
			return;
		}
		u32 to = least((u32)n, (u32)before + GREP_CHUNK);
		grepText(p.grep, room, (u32)before, to, (u32)n);
		barrier(); /* the next read overwrites the room */
		chunk(loop, p, file, at + GREP_CHUNK, size);
	});
}

/* A logical block for each file. */
static __device__ void search(Loop &loop, Search p) {
	fs::open(loop, p.paths + (u64)loop.block().x * p.pathBytes, fs::kReadOnly, [=](Loop &loop, int file) {
		if (file < 0) {
			fail(p, loop.block().x, file);
			return;
		}
		fs::fstat(loop, file, [=](Loop &loop, i64 size) { chunk(loop, p, file, 0, (u64)size); });
	});
}

KERNEL grep(gloop::Launch launch, Search p) {
	gloop::run(launch, [=](Loop &loop) { search(loop, p); });
}
