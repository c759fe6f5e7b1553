#include "pvdrm.h"

/* The distance of each of n places (latitude, longitude) from one point, on a plane. */
__kernel void nn(__global const float2 *place, __global float *distance, uint n, float latitude,
		 float longitude)
{
	uint i = GX;

	if (i >= n)
		return;

	float2 p = place[i];
	float dx = p.x - latitude, dy = p.y - longitude;

	distance[i] = SQRT(dx * dx + dy * dy);
}
