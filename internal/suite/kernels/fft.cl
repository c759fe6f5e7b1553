#include "pvdrm.h"

#define N 1024
#define THREADS (N / 4)

static inline float2 times(float2 a, float2 b)
{
	return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/*
 * Each block transforms N complex numbers, by five radix-4 steps of Stockham's
 * method. turn has the powers of exp(-2 pi i / N).
 */
__kernel void fft(__global const float2 *in, __global float2 *out, __global const float2 *turn)
{
	__local float2 x[N];
	uint t = TX;

	SHARED(x);

	__global const float2 *from = in + BX * N + t;
	float2 a = from[0], b = from[THREADS], c = from[2 * THREADS], d = from[3 * THREADS];

	for (uint s = 1;; s *= 4) {
		uint q = t & (s - 1), p = t - q; /* p counts in steps of s */
		float2 ac = a + c, bd = b + d, minus = a - c, turned = (float2)(d.y - b.y, b.x - d.x);

		a = ac + bd;
		b = times(turn[p], minus - turned);
		c = times(turn[2 * p], ac - bd);
		d = times(turn[3 * p], minus + turned);
		if (s == THREADS)
			break;
		BARRIER();
		x[q + 4 * p] = a;
		x[q + 4 * p + s] = b;
		x[q + 4 * p + 2 * s] = c;
		x[q + 4 * p + 3 * s] = d;
		BARRIER();
		a = x[t];
		b = x[t + THREADS];
		c = x[t + 2 * THREADS];
		d = x[t + 3 * THREADS];
	}

	__global float2 *to = out + BX * N + t;

	to[0] = a;
	to[THREADS] = b;
	to[2 * THREADS] = c;
	to[3 * THREADS] = d;
}
