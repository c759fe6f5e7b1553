#include "pvdrm.h"

#define DIM 32
#define THREADS 64

/*
 * softmax(q k / sqrt(DIM)) v of several heads, one query a thread. keys has, for
 * each head, DIM rows of n keys; the others have n rows of DIM. scale is
 * log2(e) / sqrt(DIM).
 */
__kernel void attention(__global const float *query, __global const float *keys, __global const float *value,
			__global float *out, uint n, float scale)
{
	__local float k[DIM][THREADS];
	__local float v[THREADS][DIM];
	uint t = TX, head = BY * n * DIM, row = head + GX * DIM;
	float q[DIM], sum[DIM];
	float most = -1e30f, weights = 0;

	SHARED(k);
	SHARED(v);

#pragma unroll
	for (uint d = 0; d < DIM; d++) {
		q[d] = query[row + d] * scale;
		sum[d] = 0;
	}
	for (uint first = 0; first < n; first += THREADS) {
		for (uint d = 0; d < DIM; d++) {
			k[d][t] = keys[head + d * n + first + t];
			v[d * 2 + t / DIM][t % DIM] = value[head + (first + d * 2 + t / DIM) * DIM + t % DIM];
		}
		BARRIER();
		for (uint j = 0; j < THREADS; j++) {
			float s = 0;

#pragma unroll
			for (uint d = 0; d < DIM; d++)
				s += q[d] * k[d][j];

			float now = s > most ? s : most, fade = EX2(most - now), w = EX2(s - now);

			most = now;
			weights = weights * fade + w;
#pragma unroll
			for (uint d = 0; d < DIM; d++)
				sum[d] = sum[d] * fade + w * v[j][d];
		}
		BARRIER();
	}
#pragma unroll
	for (uint d = 0; d < DIM; d++)
		out[row + d] = sum[d] / weights;
}
