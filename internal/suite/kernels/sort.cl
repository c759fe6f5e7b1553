#include "pvdrm.h"
#include "scan.h"

/*
 * One pass of a radix sort, by DIGITS values of some bits: sort_count counts the
 * digits of each block's keys, sort_scan finds where those of each digit and block
 * go, and sort_scatter moves them there in their order. A thread has EACH keys,
 * one after the other. counts has the blocks of digit 0, then those of digit 1, ...
 */

#define DIGITS 16
#define EACH 4

static inline uint digit(uint key, uint shift)
{
	return key >> shift & (DIGITS - 1);
}

__kernel void sort_count(__global const uint4 *keys, __global uint *counts, uint shift)
{
	__local uint bins[DIGITS];
	uint t = TX;

	SHARED(bins);

	if (t < DIGITS)
		bins[t] = 0;
	BARRIER();

	uint4 k = keys[GX];

	ATOMIC_ADD(&bins[digit(k.x, shift)], 1);
	ATOMIC_ADD(&bins[digit(k.y, shift)], 1);
	ATOMIC_ADD(&bins[digit(k.z, shift)], 1);
	ATOMIC_ADD(&bins[digit(k.w, shift)], 1);
	BARRIER();
	if (t < DIGITS)
		counts[t * NBX + BX] = bins[t];
}

__kernel void sort_scan(__global uint *counts, uint n)
{
	__local uint sum[THREADS];

	SHARED(sum);
	scan_all(counts, n, sum);
}

__kernel void sort_scatter(__global const uint4 *keys, __global uint *out, __global const uint *counts,
			   uint shift)
{
	__local uint rank[DIGITS * THREADS]; /* of a digit's threads, then those of the next digit */
	__local uint sum[THREADS];
	__local uint start[DIGITS];
	uint t = TX;

	SHARED(rank);
	SHARED(sum);
	SHARED(start);

	uint4 v = keys[GX];
	uint key[EACH] = { v.x, v.y, v.z, v.w };

	for (uint d = 0; d < DIGITS; d++)
		rank[d * THREADS + t] = 0;
#pragma unroll
	for (uint i = 0; i < EACH; i++)
		rank[digit(key[i], shift) * THREADS + t]++;
	BARRIER();

	/* Each thread adds up DIGITS ranks that lie side by side. */
	uint s = 0;

	for (uint i = 0; i < DIGITS; i++)
		s += rank[t * DIGITS + i];
	s = sum_before(s, sum);
	for (uint i = 0; i < DIGITS; i++) {
		uint here = rank[t * DIGITS + i];

		rank[t * DIGITS + i] = s;
		s += here;
	}
	BARRIER();
	if (t < DIGITS)
		start[t] = counts[t * NBX + BX] - rank[t * THREADS];
	BARRIER();
#pragma unroll
	for (uint i = 0; i < EACH; i++) {
		uint d = digit(key[i], shift);

		out[start[d] + rank[d * THREADS + t]++] = key[i];
	}
}
