#include "pvdrm.h"

/*
 * LU decomposition in place and without pivoting, of a matrix of n x n floats
 * where n is a multiple of TILE. For each tile on the diagonal: lud_diagonal
 * decomposes it, lud_border does the tiles below and to the right of it, and
 * lud_inner takes their product off all tiles beyond. `at` is the first row and
 * column of the diagonal tile.
 */

#define TILE 32
#define PITCH (TILE + 1) /* rows of a tile start in different banks */

/* One block of TILE threads; each has a row. */
__kernel void lud_diagonal(__global float *a, uint n, uint at)
{
	__local float tile[TILE][PITCH];

	SHARED(tile);

	uint i = TX;
	__global float *p = a + at * n + at;

	for (uint r = 0; r < TILE; r++)
		tile[r][i] = p[r * n + i];
	for (uint k = 0; k < TILE - 1; k++) {
		BARRIER();
		if (i > k) {
			float l = tile[i][k] / tile[k][k];

			tile[i][k] = l;
			for (uint j = k + 1; j < TILE; j++)
				tile[i][j] -= l * tile[k][j];
		}
	}
	BARRIER();
	for (uint r = 0; r < TILE; r++)
		p[r * n + i] = tile[r][i];
}

/*
 * Blocks of 2 * TILE threads, one block for each tile beyond the diagonal one.
 * The first half solves for a tile to its right, a column a thread; the second
 * for the tile below at the same distance, a row a thread.
 */
__kernel void lud_border(__global float *a, uint n, uint at)
{
	__local float diagonal[TILE][PITCH];
	__local float upper[TILE][PITCH];
	__local float lower[TILE][PITCH];

	SHARED(diagonal);
	SHARED(upper);
	SHARED(lower);

	uint i = TX % TILE, side = TX / TILE;
	uint far = at + (BX + 1) * TILE;
	__global float *pu = a + at * n + far;
	__global float *pl = a + far * n + at;

	for (uint r = side; r < TILE; r += 2) {
		diagonal[r][i] = a[(at + r) * n + at + i];
		upper[r][i] = pu[r * n + i];
		lower[r][i] = pl[r * n + i];
	}
	BARRIER();
	if (side == 0) {
		for (uint k = 0; k < TILE - 1; k++) {
			float u = upper[k][i];

			for (uint r = k + 1; r < TILE; r++)
				upper[r][i] -= diagonal[r][k] * u;
		}
	} else {
		for (uint k = 0; k < TILE; k++) {
			float l = lower[i][k] / diagonal[k][k];

			lower[i][k] = l;
			for (uint c = k + 1; c < TILE; c++)
				lower[i][c] -= l * diagonal[k][c];
		}
	}
	BARRIER();
	for (uint r = side; r < TILE; r += 2) {
		pu[r * n + i] = upper[r][i];
		pl[r * n + i] = lower[r][i];
	}
}

/* Blocks of 8 x 8 threads, one for each tile beyond; each thread has 4 x 4 elements. */
__kernel void lud_inner(__global float *a, uint n, uint at)
{
	__local float left[TILE][TILE] __attribute__((aligned(16))); /* turned: [k][row] */
	__local float top[TILE][TILE] __attribute__((aligned(16)));

	SHARED(left);
	SHARED(top);

	uint x = TX * 4, y = TY;
	uint row = at + (BY + 1) * TILE, col = at + (BX + 1) * TILE;

	for (uint r = y; r < TILE; r += 8) {
		float4 l = *(__global const float4 *)(a + (row + r) * n + at + x);

		left[x + 0][r] = l.x;
		left[x + 1][r] = l.y;
		left[x + 2][r] = l.z;
		left[x + 3][r] = l.w;
		*(__local float4 *)&top[r][x] = *(__global const float4 *)(a + (at + r) * n + col + x);
	}
	BARRIER();

	float4 sum[4];

#pragma unroll
	for (int i = 0; i < 4; i++)
		sum[i] = 0;
#pragma unroll 4
	for (uint k = 0; k < TILE; k++) {
		float4 l = *(__local float4 *)&left[k][y * 4];
		float4 u = *(__local float4 *)&top[k][x];

#pragma unroll
		for (int i = 0; i < 4; i++)
			sum[i] += l[i] * u;
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__global float4 *p = (__global float4 *)(a + (row + y * 4 + i) * n + col + x);

		*p -= sum[i];
	}
}
