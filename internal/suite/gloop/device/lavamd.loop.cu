#include "loop.h"
#include "lavamd.h"

static __shared__ LavaShared s;

/* A logical block for each box. */
KERNEL lavamd(gloop::Launch launch, Lava p) {
	SHARED(s);
	gloop::run(launch, [=](Loop &loop) { lavaBox(known(p), s, loop.block().x); });
}
