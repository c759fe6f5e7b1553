#include "../kernels/pvdrm.h"

/* Kernels of `pvdrm bench division`: each is one launch of many blocks, for one long task. */

/* c = a * b for square matrices of side n, in blocks of 16 x 16 threads. */
__kernel void product(__global const float *a, __global const float *b, __global float *c, uint n)
{
	uint x = GX, y = GY;
	float sum = 0;

	for (uint k = 0; k < n; k++)
		sum += a[y * n + k] * b[k * n + x];
	c[y * n + x] = sum;
}

/* Sobel's filter on a square image of side n, whose border is 0 in the result: |gx| + |gy|. */
__kernel void sobel(__global const float *a, __global float *c, uint n)
{
	uint x = GX, y = GY;
	float v = 0;

	if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
		__global const float *p = a + (y - 1) * n + x - 1;
		float gx = p[2] - p[0] + 2 * (p[n + 2] - p[n]) + p[2 * n + 2] - p[2 * n];
		float gy = p[2 * n] - p[0] + 2 * (p[2 * n + 1] - p[1]) + p[2 * n + 2] - p[2];

		v = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
	}
	c[y * n + x] = v;
}

/* One block, whose threads each draw n numbers; c gets the last ones. */
__kernel void block(__global float *c, uint n)
{
	uint x = TX;

	for (uint k = 0; k < n; k++)
		x = x * 1664525 + 1013904223 + (x >> 16);
	c[TX] = x >> 8;
}

#define STEPS 127

/*
 * Binomial options: a block for each option, a thread for each leaf of its tree. The price of the
 * option is the discounted expectation over a tree of STEPS steps with factors up and 1/up, where up
 * has the chance p, and d is the discount of a step.
 */
__kernel void binomial(__global const float *price, __global float *c, float up, float p, float d)
{
	__local float v[STEPS + 1];

	SHARED(v);

	float s = price[BX];
	uint i = TX;

	for (uint k = 0; k < i; k++)
		s *= up;
	for (uint k = i; k < STEPS; k++)
		s /= up;
	v[i] = s > 1 ? s - 1 : 0;
	for (uint n = STEPS; n > 0; n--) {
		BARRIER();
		float next = i < n ? d * (p * v[i + 1] + (1 - p) * v[i]) : 0;
		BARRIER();
		if (i < n)
			v[i] = next;
	}
	if (i == 0)
		c[BX] = v[0];
}
