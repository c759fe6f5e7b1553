#include "pvdrm.h"

#define STEPS 512
#define THREADS 256

/*
 * The prices of European calls by a binomial tree of STEPS steps, a block for
 * each option. up is by what a price rises in a step, its log to the base 2;
 * rise and fall are the probabilities, discounted by a step.
 */
__kernel void binomial(__global const float *price, __global const float *strike, __global float *call, float up,
		       float rise, float fall)
{
	__local float value[STEPS + 1];
	uint t = TX;
	float s = price[BX], x = strike[BX];

	SHARED(value);

	for (uint i = t; i <= STEPS; i += THREADS) {
		float gain = s * EX2(up * (2.0f * i - STEPS)) - x;

		value[i] = gain > 0 ? gain : 0;
	}
	for (uint step = STEPS; step > 0; step--) {
		float next[2];

		BARRIER();
#pragma unroll
		for (uint k = 0; k < 2; k++)
			next[k] = rise * value[t + k * THREADS + 1] + fall * value[t + k * THREADS];
		BARRIER();
#pragma unroll
		for (uint k = 0; k < 2; k++)
			if (t + k * THREADS < step)
				value[t + k * THREADS] = next[k];
	}
	if (t == 0)
		call[BX] = value[0];
}
