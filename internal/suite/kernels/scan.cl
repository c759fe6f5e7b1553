#include "pvdrm.h"
#include "scan.h"

/*
 * Inclusive prefix sums: scan_blocks makes them for each block's 4 * THREADS
 * numbers, scan_sums for the blocks, and scan_add adds those to the numbers.
 */
__kernel void scan_blocks(__global const uint4 *in, __global uint4 *out, __global uint *sums)
{
	__local uint sum[THREADS];

	SHARED(sum);

	uint4 x = in[GX];

	x.y += x.x;
	x.z += x.y;
	x.w += x.z;

	uint before = sum_before(x.w, sum);

	x += before;
	out[GX] = x;
	if (TX == THREADS - 1)
		sums[BX] = x.w;
}

__kernel void scan_sums(__global uint *sums, uint n)
{
	__local uint sum[THREADS];

	SHARED(sum);
	scan_all(sums, n, sum);
}

__kernel void scan_add(__global uint4 *out, __global const uint *sums)
{
	out[GX] += sums[BX];
}
