#include "kernels.h"

/* A pass of a radix sort: an item is the keys of a block. */

#define DIGITS 16
#define KEYS 1024

struct sort_count {
	const uint *keys;
	uint *counts, shift;
};

void sort_count(const void *params, const struct shape *s, uint from, uint to)
{
	const struct sort_count *p = params;

	for (uint block = from; block < to; block++) {
		const uint *keys = p->keys + (size_t)block * KEYS;
		uint bins[DIGITS] = { 0 };

		for (uint i = 0; i < KEYS; i++)
			bins[keys[i] >> p->shift & (DIGITS - 1)]++;
		for (uint d = 0; d < DIGITS; d++)
			p->counts[d * s->grid_x + block] = bins[d];
	}
}

void sort_scan(const void *params, const struct shape *s, uint from, uint to)
{
	scan_sums(params, s, from, to);
}

struct sort_scatter {
	const uint *keys;
	uint *out;
	const uint *counts;
	uint shift;
};

void sort_scatter(const void *params, const struct shape *s, uint from, uint to)
{
	const struct sort_scatter *p = params;

	for (uint block = from; block < to; block++) {
		const uint *keys = p->keys + (size_t)block * KEYS;
		uint next[DIGITS];

		for (uint d = 0; d < DIGITS; d++)
			next[d] = p->counts[d * s->grid_x + block];
		for (uint i = 0; i < KEYS; i++)
			p->out[next[keys[i] >> p->shift & (DIGITS - 1)]++] = keys[i];
	}
}

/* A bitonic sort: an item is the pairs of a block. */

struct bitonic_step {
	uint *keys, reach, length;
};

/* Orders `n` keys from a with those from b; they rise or fall together. */
static void bitonic_order(uint *restrict a, uint *restrict b, uint n, uint down)
{
	for (uint i = 0; i < n; i++) {
		uint x = a[i], y = b[i], low = x < y ? x : y, high = x < y ? y : x;

		a[i] = down ? high : low;
		b[i] = down ? low : high;
	}
}

void bitonic_step(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bitonic_step *p = params;
	uint reach = p->reach;

	/* A block's pairs lie side by side, since a step reaches farther than a block. */
	for (uint block = from; block < to; block++) {
		uint i = block * s->block_x, low = 2 * i - (i & (reach - 1));

		bitonic_order(p->keys + low, p->keys + low + reach, s->block_x, low & p->length);
	}
}

struct bitonic_tile {
	uint *keys, first, last;
};

void bitonic_tile(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bitonic_tile *p = params;
	uint tile = 2 * s->block_x;

	for (uint block = from; block < to; block++)
		for (uint length = p->first; length <= p->last; length *= 2)
			for (uint reach = least(length, tile) / 2; reach > 0; reach /= 2)
				for (uint low = block * tile; low < (block + 1) * tile; low += 2 * reach)
					bitonic_order(p->keys + low, p->keys + low + reach, reach, low & length);
}
