/*
 * tpacf: the angular correlation of points on a sphere. A pair of sets makes a
 * histogram of the cosines of the angles between their points. Set 0 is what was
 * observed, the others are random. Of n sets there are 2n-1 pairs: each set with
 * itself, then set 0 with each random one.
 */
#pragma once
#include "base.h"

#define TPACF_BINS 20   /* between bounds */
#define TPACF_TILE 128  /* points that a step compares with one point of each thread */

struct TPACF {
	const float *x, *y, *z;  /* of all sets, one after another */
	const float *bounds;     /* cosines, descending: bins + 1 */
	u32 points, sets;        /* points of a set */
	u64 *bins;               /* of each pair: TPACF_BINS + 2 */
};

FN TPACF known(TPACF p) {
	p.x = global(p.x), p.y = global(p.y), p.z = global(p.z), p.bounds = global(p.bounds), p.bins = global(p.bins);
	return p;
}

struct TPACFShared {
	float bounds[TPACF_BINS + 1];
	float x[TPACF_TILE], y[TPACF_TILE], z[TPACF_TILE];
	u32 bins[TPACF_BINS + 2];
};

/* The number of bounds that are at least c: 0 for an angle below all bins. */
FN u32 tpacfBin(const float *bounds, float c) {
	u32 lo = 0, hi = TPACF_BINS + 1;
	while (lo < hi) {
		u32 mid = (lo + hi) / 2;
		if (c <= bounds[mid])
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

FN void tpacfBegin(const TPACF &p, TPACFShared &s) {
	for (u32 i = thread(); i < TPACF_BINS + 1; i += threads())
		s.bounds[i] = p.bounds[i];
	for (u32 i = thread(); i < TPACF_BINS + 2; i += threads())
		s.bins[i] = 0;
	barrier();
}

/* Adds what the block has counted since tpacfBegin. */
FN void tpacfEnd(const TPACF &p, TPACFShared &s, u32 pair) {
	barrier();
	for (u32 i = thread(); i < TPACF_BINS + 2; i += threads())
		atomicPlus(&p.bins[pair * (TPACF_BINS + 2) + i], (u64)s.bins[i]);
	barrier();
}

FN u32 tpacfSteps(const TPACF &p) {
	u32 rows = (p.points + threads() - 1) / threads(), tiles = (p.points + TPACF_TILE - 1) / TPACF_TILE;
	return rows * tiles;
}

/* A step: one point of each thread against a tile of the other set. */
FN void tpacfStep(const TPACF &p, TPACFShared &s, u32 pair, u32 step) {
	u32 tiles = (p.points + TPACF_TILE - 1) / TPACF_TILE;
	u32 a = pair < p.sets ? pair : 0, b = pair < p.sets ? pair : pair - p.sets + 1;
	u32 i = step / tiles * threads() + thread(), from = step % tiles * TPACF_TILE;
	u32 n = least(TPACF_TILE, p.points - from);
	barrier(); /* the last tile is done with */
	for (u32 j = thread(); j < n; j += threads()) {
		u32 at = b * p.points + from + j;
		s.x[j] = p.x[at], s.y[j] = p.y[at], s.z[j] = p.z[at];
	}
	barrier();
	if (i >= p.points)
		return;
	u32 at = a * p.points + i;
	float x = p.x[at], y = p.y[at], z = p.z[at];
	for (u32 j = 0; j < n; j++) {
		if (a == b && from + j <= i)
			continue;
		float c = x * s.x[j] + y * s.y[j] + z * s.z[j];
		atomicPlus(&s.bins[tpacfBin(s.bounds, c)], 1u);
	}
}
