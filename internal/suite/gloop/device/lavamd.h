/*
 * lavaMD: particles in a cube of boxes. Particles interact with those of their box
 * and of the 26 around it; the potential falls exponentially with the distance.
 */
#pragma once
#include "base.h"

#define LAVA_MOST 128 /* particles of a box, which are threads of its block */

struct Particle { float x, y, z, q; };

struct Lava {
	const Particle *particles; /* of a box after that of another */
	Particle *out;             /* forces on each, and in q its potential */
	u32 side, inBox;
	float fall; /* of the potential: exp(-fall * distance squared) */
};

FN Lava known(Lava p) {
	p.particles = global(p.particles), p.out = global(p.out);
	return p;
}

struct LavaShared { Particle other[LAVA_MOST]; };

FN void lavaBox(const Lava &p, LavaShared &s, u32 box) {
	int side = (int)p.side, x0 = (int)(box % p.side), y0 = (int)(box / p.side % p.side), z0 = (int)(box / p.side / p.side);
	u32 i = thread();
	bool mine = i < p.inBox;
	Particle me = {}, sum = {};
	if (mine)
		me = p.particles[box * p.inBox + i];
	for (int n = 0; n < 27; n++) {
		int x = x0 + n % 3 - 1, y = y0 + n / 3 % 3 - 1, z = z0 + n / 9 - 1;
		if (x < 0 || y < 0 || z < 0 || x >= side || y >= side || z >= side)
			continue;
		u32 other = (u32)((z * side + y) * side + x);
		barrier();
		if (mine)
			s.other[i] = p.particles[other * p.inBox + i];
		barrier();
		if (!mine)
			continue;
		for (u32 j = 0; j < p.inBox; j++) {
			Particle o = s.other[j];
			float dx = me.x - o.x, dy = me.y - o.y, dz = me.z - o.z;
			float v = exp2About(-p.fall * 1.44269504f * (dx * dx + dy * dy + dz * dz));
			float f = 2 * p.fall * v * o.q;
			sum.q += v * o.q;
			sum.x += f * dx, sum.y += f * dy, sum.z += f * dz;
		}
	}
	if (mine)
		p.out[box * p.inBox + i] = sum;
	barrier();
}
