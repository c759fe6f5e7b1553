#include "pvdrm.h"
#include "rows.h"

/* The softmax of each row. A block has a row. */
__kernel void softmax(__global const float *in, __global float *out, uint width)
{
	__local float all[THREADS];
	__global const float *row = in + BX * width;
	float most = -1e30f, sum = 0;

	SHARED(all);

	for (uint i = TX; i < width; i += THREADS)
		most = row[i] > most ? row[i] : most;
	most = row_most(most, all);
	for (uint i = TX; i < width; i += THREADS)
		sum += EX2((row[i] - most) * LOG2_E);

	float part = 1.0f / row_sum(sum, all);

	for (uint i = TX; i < width; i += THREADS)
		out[BX * width + i] = EX2((row[i] - most) * LOG2_E) * part;
}
