#include "pvdrm.h"

/* c = a + b for matrices with rows of `width` vectors of four. */
__kernel void fmadd(__global const float4 *a, __global const float4 *b, __global float4 *c, uint width)
{
	uint i = GY * width + GX;

	c[i] = a[i] + b[i];
}
