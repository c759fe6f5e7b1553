#include "pvdrm.h"

#define THREADS 256

/* Each block adds up its part of n numbers. */
__kernel void reduction(__global const float *in, __global float *out, uint n)
{
	__local float sum[THREADS];
	uint t = TX;
	float s = 0;

	SHARED(sum);

	for (uint i = GX; i < n; i += NBX * THREADS)
		s += in[i];
	sum[t] = s;
	for (uint reach = THREADS / 2; reach > 0; reach /= 2) {
		BARRIER();
		if (t < reach) {
			s += sum[t + reach];
			sum[t] = s;
		}
	}
	if (t == 0)
		out[BX] = s;
}
