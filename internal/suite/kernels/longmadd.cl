#include "pvdrm.h"

/* Row y of c becomes the sum of the rows y, y+1, ... y+rounds-1 of a + b, where
 * row numbers wrap at `mask` + 1: madd's work, `rounds` times. */
__kernel void longmadd(__global const int4 *a, __global const int4 *b, __global int4 *c, uint width,
		       uint mask, uint rounds)
{
	uint x = GX, y = GY;
	int4 sum = 0;

	for (uint r = 0; r < rounds; r++) {
		uint i = ((y + r) & mask) * width + x;

		sum += a[i] + b[i];
	}
	c[y * width + x] = sum;
}
