#include "throttle.h"

/* Makes steps of each thread's chain. kernel-split launches it for one step at a time. */
KERNEL throttle(u32 *state, u32 steps) {
	u32 at = block() * threads() + thread();
	for (u32 i = 0; i < steps; i++)
		throttleStep(state, at);
}
