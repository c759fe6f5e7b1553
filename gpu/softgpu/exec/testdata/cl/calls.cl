// A program of functions that are not inlined: distances to shapes, and a march along rays.
#include "ids.h"

#define NOINLINE __attribute__((noinline))

typedef struct { float x, y, z; } vec;

NOINLINE static float length3(vec p) { return __builtin_sqrtf(p.x * p.x + p.y * p.y + p.z * p.z); }

NOINLINE static float sphere(vec p, float r) { return length3(p) - r; }

NOINLINE static float torus(vec p, float r, float thick) {
	float q = __builtin_sqrtf(p.x * p.x + p.z * p.z) - r;
	return __builtin_sqrtf(q * q + p.y * p.y) - thick;
}

NOINLINE static float scene(vec p) {
	float d = sphere(p, 0.6f), e = torus(p, 1.1f, 0.2f);
	return d < e ? d : e;
}

// march goes along a ray until it is near a shape, or far away.
NOINLINE static int march(vec from, vec to) {
	float t = 0;
	for (int i = 0; i < 48; i++) {
		vec p = {from.x + t * to.x, from.y + t * to.y, from.z + t * to.z};
		float d = scene(p);
		if (d < 0.002f)
			return i;
		t += d;
		if (t > 6)
			return 100;
	}
	return 200;
}

__kernel void rays(__global int *out, int width) {
	int n = gx, x = n % width, y = n / width;
	vec from = {0, 0.5f, -3}, to = {(x - width / 2) / (float)width, (y - width / 2) / (float)width, 1};
	float l = length3(to);
	to.x /= l, to.y /= l, to.z /= l;
	out[n] = march(from, to);
}
