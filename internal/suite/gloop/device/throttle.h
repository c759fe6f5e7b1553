/* throttle: a chain of steps, each of which does next to nothing. */
#pragma once
#include "base.h"

FN void throttleStep(u32 *state, u32 at) {
	volatile u32 *p = state + at;
	*p = *p * 1664525u + 1013904223u;
}
