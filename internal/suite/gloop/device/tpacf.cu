#include "tpacf.h"

/* A block for each pair makes steps first to last, all of them in the vanilla version. */
KERNEL tpacf(TPACF p, u32 first, u32 last) {
	static __shared__ TPACFShared s;
	SHARED(s);
	last = least(last, tpacfSteps(p));
	tpacfBegin(p, s);
	for (u32 step = first; step < last; step++)
		tpacfStep(p, s, block(), step);
	tpacfEnd(p, s, block());
}
