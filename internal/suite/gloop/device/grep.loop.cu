#include "loop.h"
#include "grep.h"

namespace fs = gloop::fs;

#define GREP_CHUNK 65536 /* of a file that a callback looks at */
#define GREP_SLACK 33    /* what it looks at beyond that */
#define GREP_ROOM (GREP_CHUNK + 64)
#define GREP_AHEAD 4     /* files that a block has under way */

/*
 * A search: paths of files, each of pathBytes with a zero at its end. Each physical block has room for the
 * texts of GREP_AHEAD files, which the host reads them to, and for one that the block looks at.
 */
struct Search {
	Grep grep;
	const char *paths;
	u8 *room, *text;
	u32 pathBytes, files, each; /* files in all, and of a logical block */
	i64 *failed;                /* the first error of a file, and the file */
};

/* A file, and which one of those under way it is. */
struct Place { u32 file, way; };

static __device__ void fail(const Search &p, u32 file, i64 error) {
	if (thread() == 0 && p.failed[0] == 0) {
		p.failed[0] = error;
		p.failed[1] = file;
	}
}

static __device__ void look(Loop &loop, Search p, Place at);

/* Closes a file, and goes on with the next one of its way. */
static __device__ void done(Loop &loop, Search p, Place at, int file) {
	fs::close(loop, file, [=](Loop &loop, int) { look(loop, p, Place{at.file + GREP_AHEAD, at.way}); });
}

static __device__ void chunk(Loop &loop, Search p, Place place, int file, u64 at, u64 size) {
	u64 before = at ? 1 : 0;
	if (at >= size)
		return done(loop, p, place, file);
	u8 *room = p.room + ((u64)block() * GREP_AHEAD + place.way) * GREP_ROOM;
	fs::read(loop, file, at - before, GREP_CHUNK + GREP_SLACK + before, room, [=](Loop &loop, i64 n) {
		if (n < 0)
			fail(p, place.file, n);
		if (n <= (i64)before) /* it has become shorter */
			return done(loop, p, place, file);
		u32 to = least((u32)n, (u32)before + GREP_CHUNK);
		u8 *text = global(p.text + (u64)block() * GREP_ROOM);
		fetch(text, room, (u32)n);
		if (at + GREP_CHUNK < size) /* the next read goes on meanwhile */
			chunk(loop, p, place, file, at + GREP_CHUNK, size);
		else
			done(loop, p, place, file);
		grepText(known(p.grep), text, (u32)before, to, (u32)n);
		barrier(); /* the text that is fetched next overwrites this one */
	});
}

/* Looks at a file of the logical block, if there is one. */
static __device__ void look(Loop &loop, Search p, Place at) {
	if (at.file >= least(p.files, (loop.block().x + 1) * p.each))
		return;
	fs::open(loop, p.paths + (u64)at.file * p.pathBytes, fs::kReadOnly, [=](Loop &loop, int file) {
		if (file < 0) {
			fail(p, at.file, file);
			return look(loop, p, Place{at.file + GREP_AHEAD, at.way});
		}
		fs::fstat(loop, file, [=](Loop &loop, i64 size) { chunk(loop, p, at, file, 0, (u64)size); });
	});
}

/* A logical block for some files. */
KERNEL grep(gloop::Launch launch, Search p) {
	gloop::run(launch, [=](Loop &loop) {
		for (u32 way = 0; way < GREP_AHEAD; way++)
			look(loop, p, Place{loop.block().x * p.each + way, way});
	});
}
