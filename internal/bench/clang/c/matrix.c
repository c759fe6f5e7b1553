#include "kernels.h"

/* fmadd: an item is a row. */

struct fmadd {
	const float *a, *b;
	float *c;
	uint width; /* vectors of four in a row */
};

uint fmadd_items(const struct shape *s)
{
	return s->grid_y * s->block_y;
}

void fmadd(const void *params, const struct shape *s, uint from, uint to)
{
	const struct fmadd *p = params;
	size_t first = (size_t)from * p->width * 4, n = (size_t)(to - from) * p->width * 4;
	const float *restrict a = p->a + first, *restrict b = p->b + first;
	float *restrict c = p->c + first;

	(void)s;
	for (size_t i = 0; i < n; i++)
		c[i] = a[i] + b[i];
}

/*
 * fmmul: an item is a tile of c, as of a block of the GPU's kernel, which walks
 * along k in the same steps; what its threads do side by side are loops here.
 */

#define TILE 128
#define STEP 8

struct fmmul {
	const float *a, *b;
	float *c;
	uint n; /* a multiple of TILE */
};

uint fmmul_items(const struct shape *s)
{
	return s->grid_x * s->grid_y;
}

void fmmul(const void *params, const struct shape *s, uint from, uint to)
{
	const struct fmmul *p = params;
	uint n = p->n;
	float strip[STEP][TILE], sum[TILE][TILE];

	for (uint item = from; item < to; item++) {
		size_t row = item / s->grid_x * TILE, col = item % s->grid_x * TILE;

		memset(sum, 0, sizeof(sum));
		for (uint k = 0; k < n; k += STEP) {
			for (uint i = 0; i < STEP; i++)
				memcpy(strip[i], p->b + (k + i) * n + col, sizeof(strip[i]));
			for (uint y = 0; y < TILE; y++) {
				const float *a = p->a + (row + y) * n + k;

				for (uint i = 0; i < STEP; i++)
					for (uint x = 0; x < TILE; x++)
						sum[y][x] += a[i] * strip[i][x];
			}
		}
		for (uint y = 0; y < TILE; y++)
			memcpy(p->c + (row + y) * n + col, sum[y], sizeof(sum[y]));
	}
}

/*
 * lud: items are tiles. lud_border has two for each tile beyond the diagonal one,
 * that to the right and that below.
 */

#define LUD 32 /* side of a tile */

struct lud {
	float *a;
	uint n, at;
};

uint lud_diagonal_items(const struct shape *s)
{
	(void)s;
	return 1;
}

void lud_diagonal(const void *params, const struct shape *s, uint from, uint to)
{
	const struct lud *p = params;
	float tile[LUD][LUD];
	float *a = p->a + (size_t)p->at * p->n + p->at;

	(void)s;
	if (from >= to)
		return;
	for (uint r = 0; r < LUD; r++)
		memcpy(tile[r], a + r * p->n, sizeof(tile[r]));
	for (uint k = 0; k < LUD - 1; k++)
		for (uint i = k + 1; i < LUD; i++) {
			float l = tile[i][k] / tile[k][k];

			tile[i][k] = l;
			for (uint j = k + 1; j < LUD; j++)
				tile[i][j] -= l * tile[k][j];
		}
	for (uint r = 0; r < LUD; r++)
		memcpy(a + r * p->n, tile[r], sizeof(tile[r]));
}

uint lud_border_items(const struct shape *s)
{
	return s->grid_x * 2;
}

void lud_border(const void *params, const struct shape *s, uint from, uint to)
{
	const struct lud *p = params;
	uint n = p->n, at = p->at;
	float diagonal[LUD][LUD], tile[LUD][LUD];

	(void)s;
	for (uint r = 0; r < LUD; r++)
		memcpy(diagonal[r], p->a + (size_t)(at + r) * n + at, sizeof(diagonal[r]));
	for (uint item = from; item < to; item++) {
		uint far = at + (item / 2 + 1) * LUD;
		float *a = item % 2 == 0 ? p->a + (size_t)at * n + far : p->a + (size_t)far * n + at;

		for (uint r = 0; r < LUD; r++)
			memcpy(tile[r], a + r * n, sizeof(tile[r]));
		if (item % 2 == 0) {
			for (uint k = 0; k < LUD - 1; k++)
				for (uint r = k + 1; r < LUD; r++)
					for (uint c = 0; c < LUD; c++)
						tile[r][c] -= diagonal[r][k] * tile[k][c];
		} else {
			for (uint k = 0; k < LUD; k++)
				for (uint r = 0; r < LUD; r++) {
					float l = tile[r][k] / diagonal[k][k];

					tile[r][k] = l;
					for (uint c = k + 1; c < LUD; c++)
						tile[r][c] -= l * diagonal[k][c];
				}
		}
		for (uint r = 0; r < LUD; r++)
			memcpy(a + r * n, tile[r], sizeof(tile[r]));
	}
}

uint lud_inner_items(const struct shape *s)
{
	return s->grid_x * s->grid_y;
}

void lud_inner(const void *params, const struct shape *s, uint from, uint to)
{
	const struct lud *p = params;
	uint n = p->n, at = p->at;
	float top[LUD][LUD];

	for (uint item = from; item < to; item++) {
		uint row = at + (item / s->grid_x + 1) * LUD, col = at + (item % s->grid_x + 1) * LUD;

		for (uint k = 0; k < LUD; k++)
			memcpy(top[k], p->a + (size_t)(at + k) * n + col, sizeof(top[k]));
		for (uint r = 0; r < LUD; r += 4) {
			const float *restrict left = p->a + (size_t)(row + r) * n + at;
			float *restrict out = p->a + (size_t)(row + r) * n + col;
			float sum[4][LUD] = { 0 };

			for (uint k = 0; k < LUD; k++)
				for (uint i = 0; i < 4; i++)
					for (uint c = 0; c < LUD; c++)
						sum[i][c] += left[i * n + k] * top[k][c];
			for (uint i = 0; i < 4; i++)
				for (uint c = 0; c < LUD; c++)
					out[i * n + c] -= sum[i][c];
		}
	}
}
