#include "pvdrm.h"

/* y = A x for a sparse matrix: row i has the values from first[i] to first[i + 1], in columns column[]. */
__kernel void spmv(__global const uint *first, __global const uint *column, __global const float *value,
		   __global const float *x, __global float *y, uint rows)
{
	uint i = GX;

	if (i >= rows)
		return;

	float s = 0;

	for (uint k = first[i]; k < first[i + 1]; k++)
		s += value[k] * x[column[k]];
	y[i] = s;
}
