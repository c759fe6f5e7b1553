#include "pvdrm.h"

#define THREADS 256

/*
 * The pull of n bodies (place, and mass in w) on each of them, softened: of each
 * body the acceleration, and in w its potential. n is a multiple of THREADS.
 */
__kernel void nbody(__global const float4 *body, __global float4 *pull, uint n, float soft)
{
	__local float4 tile[THREADS];
	float4 here = body[GX], sum = 0;
	uint t = TX;

	SHARED(tile);

	for (uint first = 0; first < n; first += THREADS) {
		tile[t] = body[first + t];
		BARRIER();
#pragma unroll 4
		for (uint k = 0; k < THREADS; k++) {
			float4 b = tile[k];
			float x = b.x - here.x, y = b.y - here.y, z = b.z - here.z;
			float near = RSQRT(x * x + y * y + z * z + soft);
			float m = b.w * near, s = m * near * near;

			sum.x += s * x;
			sum.y += s * y;
			sum.z += s * z;
			sum.w += m;
		}
		BARRIER();
	}
	pull[GX] = sum;
}
