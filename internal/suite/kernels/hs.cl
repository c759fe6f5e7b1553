#include "pvdrm.h"

#define ROWS 4 /* of each thread's patch */

/*
 * One time step of heat flow through a chip's surface, on a grid of `width`
 * columns (a multiple of 4) and `height` rows (a multiple of ROWS). Beyond the
 * edge lies a cell as warm as the one at the edge. The k are the step divided by the heat
 * capacity, and by it and the thermal resistance in x, y and to the air above.
 * Each thread makes a patch of 4 x ROWS cells.
 */
__kernel void hs_step(__global const float *from, __global const float *power, __global float *to,
		      uint width, uint height, float kpower, float kx, float ky, float kair, float air)
{
	uint x = GX * 4, y = GY * ROWS;
	uint left = x == 0 ? 0 : x - 1;
	uint right = x + 4 == width ? x + 3 : x + 4;
	uint above = y == 0 ? 0 : y - 1;
	uint below = y + ROWS == height ? y + ROWS - 1 : y + ROWS;

	if (x >= width || y >= height)
		return;

	__global const float *row = from + y * width;
	float4 north = *(__global const float4 *)(from + above * width + x);
	float4 here = *(__global const float4 *)(row + x);

#pragma unroll
	for (uint r = 0; r < ROWS; r++) {
		float4 south = r + 1 < ROWS ? *(__global const float4 *)(row + width + x)
					    : *(__global const float4 *)(from + below * width + x);
		float4 west = (float4)(row[left], here.xyz);
		float4 east = (float4)(here.yzw, row[right]);
		float4 p = *(__global const float4 *)(power + (y + r) * width + x);
		float4 t = here + kpower * p;

		t += ky * (north + south - 2.0f * here);
		t += kx * (west + east - 2.0f * here);
		t += kair * (air - here);
		*(__global float4 *)(to + (y + r) * width + x) = t;
		north = here;
		here = south;
		row += width;
	}
}
