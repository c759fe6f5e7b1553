#include "pvdrm.h"

/* c = a + b for matrices with rows of `width` vectors of four. */
__kernel void madd(__global const int4 *a, __global const int4 *b, __global int4 *c, uint width)
{
	uint i = GY * width + GX;

	c[i] = a[i] + b[i];
}
