#include "pvdrm.h"

/* Each thread applies x -> x * mul + add to its word n times. The factors are
 * arguments, so that the compiler cannot fold several rounds into one. */
__kernel void loop(__global uint *data, uint mul, uint add, uint n)
{
	uint i = GX;
	uint x = data[i];

#pragma unroll 16
	for (uint k = 0; k < n; k++)
		x = x * mul + add;
	data[i] = x;
}
