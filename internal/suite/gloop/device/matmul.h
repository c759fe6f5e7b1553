/* matmul: a server that multiplies square matrices. */
#pragma once
#include "base.h"

#define MATMUL_TILE 16

struct MatmulShared { float a[MATMUL_TILE][MATMUL_TILE], b[MATMUL_TILE][MATMUL_TILE]; };

/* One tile of c = a * b of side n, a multiple of the tile, by 256 threads. */
FN void matmulTile(const float *a, const float *b, float *c, u32 n, u32 tile, MatmulShared &s) {
	u32 x = thread() % MATMUL_TILE, y = thread() / MATMUL_TILE, tiles = n / MATMUL_TILE;
	u32 row = tile / tiles * MATMUL_TILE + y, column = tile % tiles * MATMUL_TILE + x;
	float sum = 0;
	for (u32 k = 0; k < n; k += MATMUL_TILE) {
		s.a[y][x] = a[row * n + k + x];
		s.b[y][x] = b[(k + y) * n + column];
		barrier();
		for (u32 i = 0; i < MATMUL_TILE; i++)
			sum += s.a[y][i] * s.b[i][x];
		barrier();
	}
	c[row * n + column] = sum;
}
