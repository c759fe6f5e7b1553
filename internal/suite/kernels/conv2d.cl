#include "pvdrm.h"

#define SIDE 16 /* of a block, in threads and pixels */
#define TAPS 7
#define WIDE (SIDE + TAPS - 1)

/* Each pixel becomes a weighted sum of TAPS x TAPS; `in` has TAPS - 1 more rows and columns than `out`. */
__kernel void conv2d(__global const float *in, __global float *out, __global const float *weight, uint width)
{
	__local float tile[WIDE][WIDE];
	uint tx = TX, ty = TY, pitch = width + TAPS - 1;
	__global const float *corner = in + BY * SIDE * pitch + BX * SIDE;
	float sum = 0;

	SHARED(tile);

	for (uint y = ty; y < WIDE; y += SIDE)
		for (uint x = tx; x < WIDE; x += SIDE)
			tile[y][x] = corner[y * pitch + x];
	BARRIER();
#pragma unroll
	for (uint y = 0; y < TAPS; y++)
#pragma unroll
		for (uint x = 0; x < TAPS; x++)
			sum += weight[y * TAPS + x] * tile[ty + y][tx + x];
	out[GY * width + GX] = sum;
}
