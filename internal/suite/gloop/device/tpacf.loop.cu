#include "loop.h"
#include "tpacf.h"

static __shared__ TPACFShared s;

/* Steps of a pair of sets, which is the logical block. What was counted leaves shared memory with the loop. */
static __device__ void steps(Loop &loop, TPACF p, u32 step) {
	SHARED(s);
	p = known(p);
	u32 pair = loop.block().x, n = tpacfSteps(p);
	tpacfBegin(p, s);
	do {
		tpacfStep(p, s, pair, step++);
	} while (step < n && !postTaskIfNecessary(loop, [=](Loop &loop) { steps(loop, p, step); }));
	tpacfEnd(p, s, pair);
}

KERNEL tpacf(gloop::Launch launch, TPACF p) {
	gloop::run(launch, [=](Loop &loop) { steps(loop, p, 0); });
}
