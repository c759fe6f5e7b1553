#include "pvdrm.h"
#include "rows.h"

/* Each row, made to have mean 0 and variance 1, times gain plus bias. A block has a row. */
__kernel void layernorm(__global const float *in, __global float *out, __global const float *gain,
			__global const float *bias, uint width)
{
	__local float all[THREADS];
	__global const float *row = in + BX * width;
	float sum = 0, squares = 0;

	SHARED(all);

	for (uint i = TX; i < width; i += THREADS)
		sum += row[i];

	float mean = row_sum(sum, all) / width;

	for (uint i = TX; i < width; i += THREADS)
		squares += (row[i] - mean) * (row[i] - mean);

	float inverse = RSQRT(row_sum(squares, all) / width + 1e-5f);

	for (uint i = TX; i < width; i += THREADS)
		out[BX * width + i] = (row[i] - mean) * inverse * gain[i] + bias[i];
}
