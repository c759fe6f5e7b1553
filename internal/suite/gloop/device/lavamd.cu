#include "lavamd.h"

/* A block for each box from first on. */
KERNEL lavamd(Lava p, u32 first) {
	static __shared__ LavaShared s;
	SHARED(s);
	lavaBox(p, s, first + block());
}
