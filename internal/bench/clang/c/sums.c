#include "kernels.h"

#define LANES 32

struct reduction {
	const float *in;
	float *out;
	uint n;
};

/* An item is a part of the sum: it adds up what lies side by side. */
void reduction(const void *params, const struct shape *s, uint from, uint to)
{
	const struct reduction *p = params;

	for (uint part = from; part < to; part++) {
		uint i = (uint)((uint64_t)p->n * part / s->grid_x);
		uint end = (uint)((uint64_t)p->n * (part + 1) / s->grid_x);
		float sum[LANES] = { 0 }, all = 0;

		for (; i + LANES <= end; i += LANES)
			for (uint l = 0; l < LANES; l++)
				sum[l] += p->in[i + l];
		for (; i < end; i++)
			all += p->in[i];
		for (uint l = 0; l < LANES; l++)
			all += sum[l];
		p->out[part] = all;
	}
}

/* Prefix sums: an item is the numbers of a block. */

#define SCAN 1024

struct scan_blocks {
	const uint *in;
	uint *out, *sums;
};

void scan_blocks(const void *params, const struct shape *s, uint from, uint to)
{
	const struct scan_blocks *p = params;

	(void)s;
	for (uint block = from; block < to; block++) {
		const uint *restrict in = p->in + (size_t)block * SCAN;
		uint *restrict out = p->out + (size_t)block * SCAN;
		uint sum = 0;

		for (uint i = 0; i < SCAN; i++) {
			sum += in[i];
			out[i] = sum;
		}
		p->sums[block] = sum;
	}
}

struct scan_sums {
	uint *sums;
	uint n;
};

void scan_sums(const void *params, const struct shape *s, uint from, uint to)
{
	const struct scan_sums *p = params;
	uint sum = 0;

	(void)s;
	if (from >= to)
		return;
	for (uint i = 0; i < p->n; i++) {
		uint here = p->sums[i];

		p->sums[i] = sum;
		sum += here;
	}
}

struct scan_add {
	uint *out;
	const uint *sums;
};

void scan_add(const void *params, const struct shape *s, uint from, uint to)
{
	const struct scan_add *p = params;

	(void)s;
	for (uint block = from; block < to; block++) {
		uint *restrict out = p->out + (size_t)block * SCAN, sum = p->sums[block];

		for (uint i = 0; i < SCAN; i++)
			out[i] += sum;
	}
}

/* An item counts a part of the words, in four tables, so that equal bytes do not wait for each other. */

#define BINS 256

struct histogram {
	const uint *in;
	uint *bins;
	uint n;
};

void histogram(const void *params, const struct shape *s, uint from, uint to)
{
	const struct histogram *p = params;

	for (uint part = from; part < to; part++) {
		uint i = (uint)((uint64_t)p->n * part / s->grid_x);
		uint end = (uint)((uint64_t)p->n * (part + 1) / s->grid_x);
		uint own[4][BINS] = { 0 };

		for (; i < end; i++) {
			uint x = p->in[i];

			own[0][x & 255]++;
			own[1][x >> 8 & 255]++;
			own[2][x >> 16 & 255]++;
			own[3][x >> 24]++;
		}
		for (uint b = 0; b < BINS; b++)
			__atomic_fetch_add(&p->bins[b], own[0][b] + own[1][b] + own[2][b] + own[3][b], __ATOMIC_RELAXED);
	}
}

/* An item is a block of rows. */

struct spmv {
	const uint *first, *column;
	const float *value, *x;
	float *y;
	uint rows;
};

void spmv(const void *params, const struct shape *s, uint from, uint to)
{
	const struct spmv p = *(const struct spmv *)params;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p.rows); i++) {
		float sum = 0;

		for (uint k = p.first[i]; k < p.first[i + 1]; k++)
			sum += p.value[k] * p.x[p.column[k]];
		p.y[i] = sum;
	}
}
