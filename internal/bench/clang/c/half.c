#include "kernels.h"

/*
 * hmmul: as fmmul, an item is a tile of c. The elements of a and b are 16-bit floating-point numbers,
 * which are made 32-bit ones a tile and step at a time.
 */

#define TILE 128
#define STEP 8

struct hmmul {
	const uint16_t *a, *b;
	float *c;
	uint n; /* a multiple of TILE */
};

/* The value of a binary16 number that is finite: its exponent's bias is 15, and that of a float 127. */
static inline float widen(uint16_t h)
{
	union {
		uint bits;
		float value;
	} magnitude = { (uint)(h & 0x7fff) << 13 }, sign = { (uint)(h & 0x8000) << 16 };

	magnitude.value *= 0x1p112f;
	magnitude.bits |= sign.bits;
	return magnitude.value;
}

void hmmul(const void *params, const struct shape *s, uint from, uint to)
{
	const struct hmmul *p = params;
	uint n = p->n;
	float left[TILE][STEP], strip[STEP][TILE], sum[TILE][TILE];

	for (uint item = from; item < to; item++) {
		size_t row = item / s->grid_x * TILE, col = item % s->grid_x * TILE;

		memset(sum, 0, sizeof(sum));
		for (uint k = 0; k < n; k += STEP) {
			for (uint i = 0; i < STEP; i++)
				for (uint x = 0; x < TILE; x++)
					strip[i][x] = widen(p->b[(k + i) * n + col + x]);
			for (uint y = 0; y < TILE; y++)
				for (uint i = 0; i < STEP; i++)
					left[y][i] = widen(p->a[(row + y) * n + k + i]);
			for (uint y = 0; y < TILE; y++)
				for (uint i = 0; i < STEP; i++)
					for (uint x = 0; x < TILE; x++)
						sum[y][x] += left[y][i] * strip[i][x];
		}
		for (uint y = 0; y < TILE; y++)
			memcpy(p->c + (row + y) * n + col, sum[y], sizeof(sum[y]));
	}
}
