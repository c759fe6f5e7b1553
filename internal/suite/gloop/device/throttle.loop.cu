#include "loop.h"
#include "throttle.h"

/* Figure 5.9 has 1,024 threads in a block: the bounds keep registers for so many. */

/* A step of the chain, and a callback for the next one. */
static __device__ void step(Loop &loop, u32 *state, u32 left) {
	throttleStep(state, loop.block().x * threads() + thread());
	if (left > 1)
		postTask(loop, [=](Loop &loop) { step(loop, state, left - 1); });
}

KERNEL __launch_bounds__(1024) throttle(gloop::Launch launch, u32 *state, u32 steps) {
	gloop::run(launch, [=](Loop &loop) { step(loop, state, steps); });
}

/* The same with a callback only where a look at the signal is due. */
static __device__ void steps(Loop &loop, u32 *state, u32 left) {
	u32 at = loop.block().x * threads() + thread();
	do {
		throttleStep(state, at);
		left--;
	} while (left > 0 && !postTaskIfNecessary(loop, [=](Loop &loop) { steps(loop, state, left); }));
}

KERNEL __launch_bounds__(1024) throttle_if(gloop::Launch launch, u32 *state, u32 n) {
	gloop::run(launch, [=](Loop &loop) { steps(loop, state, n); });
}
