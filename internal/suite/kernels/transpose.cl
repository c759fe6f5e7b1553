#include "pvdrm.h"

#define TILE 32
#define ROWS 8 /* of a block's threads */

/* Turns a square matrix of n rows. A row of the tile has one place more, so that columns lie in other banks. */
__kernel void transpose(__global const float *in, __global float *out, uint n)
{
	__local float tile[TILE][TILE + 1];
	uint tx = TX, ty = TY, x = BX * TILE, y = BY * TILE;

	SHARED(tile);

#pragma unroll
	for (uint r = 0; r < TILE; r += ROWS)
		tile[ty + r][tx] = in[(y + ty + r) * n + x + tx];
	BARRIER();
#pragma unroll
	for (uint r = 0; r < TILE; r += ROWS)
		out[(x + ty + r) * n + y + tx] = tile[tx][ty + r];
}
