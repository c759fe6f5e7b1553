#include "kernels.h"

/*
 * fmadd and madd: an item is a row. fmmul and mmul: an item is a tile of c, as of
 * a block of the GPU's kernel, which walks along k in the same steps; what its
 * threads do side by side are loops here. Sums of integers wrap.
 */

#define TILE 128
#define STEP 8

#define MATRICES(T, ADD, MUL)                                                                                     \
	struct ADD {                                                                                              \
		const T *a, *b;                                                                                   \
		T *c;                                                                                             \
		uint width; /* vectors of four in a row */                                                        \
	};                                                                                                        \
                                                                                                                  \
	void ADD(const void *params, const struct shape *s, uint from, uint to)                                   \
	{                                                                                                         \
		const struct ADD *p = params;                                                                     \
		size_t first = (size_t)from * p->width * 4, n = (size_t)(to - from) * p->width * 4;               \
		const T *restrict a = p->a + first, *restrict b = p->b + first;                                   \
		T *restrict c = p->c + first;                                                                     \
                                                                                                                  \
		(void)s;                                                                                          \
		for (size_t i = 0; i < n; i++)                                                                    \
			c[i] = a[i] + b[i];                                                                       \
	}                                                                                                         \
                                                                                                                  \
	struct MUL {                                                                                              \
		const T *a, *b;                                                                                   \
		T *c;                                                                                             \
		uint n; /* a multiple of TILE */                                                                  \
	};                                                                                                        \
                                                                                                                  \
	void MUL(const void *params, const struct shape *s, uint from, uint to)                                   \
	{                                                                                                         \
		const struct MUL *p = params;                                                                     \
		uint n = p->n;                                                                                    \
		T strip[STEP][TILE], sum[TILE][TILE];                                                             \
                                                                                                                  \
		for (uint item = from; item < to; item++) {                                                       \
			size_t row = item / s->grid_x * TILE, col = item % s->grid_x * TILE;                      \
                                                                                                                  \
			memset(sum, 0, sizeof(sum));                                                              \
			for (uint k = 0; k < n; k += STEP) {                                                      \
				for (uint i = 0; i < STEP; i++)                                                   \
					memcpy(strip[i], p->b + (k + i) * n + col, sizeof(strip[i]));             \
				for (uint y = 0; y < TILE; y++) {                                                 \
					const T *a = p->a + (row + y) * n + k;                                    \
                                                                                                                  \
					for (uint i = 0; i < STEP; i++)                                           \
						for (uint x = 0; x < TILE; x++)                                   \
							sum[y][x] += a[i] * strip[i][x];                          \
				}                                                                                 \
			}                                                                                         \
			for (uint y = 0; y < TILE; y++)                                                           \
				memcpy(p->c + (row + y) * n + col, sum[y], sizeof(sum[y]));                       \
		}                                                                                                 \
	}

MATRICES(float, fmadd, fmmul)
MATRICES(uint, madd, mmul)

/* An item is a row. */

struct longmadd {
	const uint *a, *b;
	uint *c, width, mask, rounds;
};

void longmadd(const void *params, const struct shape *s, uint from, uint to)
{
	const struct longmadd *p = params;
	size_t n = (size_t)p->width * 4;

	(void)s;
	for (uint y = from; y < to; y++) {
		uint *restrict c = p->c + y * n;

		memset(c, 0, n * sizeof(*c));
		for (uint r = 0; r < p->rounds; r++) {
			const uint *restrict a = p->a + ((y + r) & p->mask) * n, *restrict b = p->b + ((y + r) & p->mask) * n;

			for (size_t x = 0; x < n; x++)
				c[x] += a[x] + b[x];
		}
	}
}

/* An item is the words of a block, of which LANES are done side by side. */

#define LANES 64

struct loop {
	uint *data, mul, add, n;
};

void loop(const void *params, const struct shape *s, uint from, uint to)
{
	const struct loop p = *(const struct loop *)params;

	for (uint i = from * s->block_x; i < to * s->block_x; i += LANES) {
		uint x[LANES];

		memcpy(x, p.data + i, sizeof(x));
		for (uint k = 0; k < p.n; k++)
			for (uint l = 0; l < LANES; l++)
				x[l] = x[l] * p.mul + p.add;
		memcpy(p.data + i, x, sizeof(x));
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
