#include "loop.h"
#include "mummergpu.h"

#define MUMMER_STRIDE 32 /* places between two scheduling points */

static __device__ void places(Loop &loop, Mummer p, u32 place) {
	p = known(p);
	u32 query = loop.block().x * threads() + thread();
	do {
		u32 last = least(place + MUMMER_STRIDE, p.queryLength);
		for (; place < last; place++)
			if (query < p.queryCount)
				mummerMatch(p, query, place);
	} while (place < p.queryLength && !postTaskIfNecessary(loop, [=](Loop &loop) { places(loop, p, place); }));
}

/* A logical block for each block of threads, of which each has a query. */
KERNEL mummer_match(gloop::Launch launch, Mummer p) {
	gloop::run(launch, [=](Loop &loop) { places(loop, p, 0); });
}

KERNEL mummer_print(gloop::Launch launch, Mummer p) {
	gloop::run(launch, [=](Loop &loop) { mummerPrint(known(p), loop.block().x * threads() + thread()); });
}
