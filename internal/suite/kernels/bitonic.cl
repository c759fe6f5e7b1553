#include "pvdrm.h"

#define THREADS 256
#define TILE (2 * THREADS)

/* Puts a pair in order: up unless the bit `length` of its place is set. */
static inline void order(uint *a, uint *b, uint place, uint length)
{
	if ((*a > *b) == ((place & length) == 0)) {
		uint t = *a;

		*a = *b;
		*b = t;
	}
}

/* The lower place of the pair with number i, whose places lie `reach` apart. */
static inline uint lower(uint i, uint reach)
{
	return 2 * i - (i & (reach - 1));
}

/* One step of a bitonic sort: pairs that lie `reach` apart, in runs of `length`. */
__kernel void bitonic_step(__global uint *keys, uint reach, uint length)
{
	uint i = lower(GX, reach), a = keys[i], b = keys[i + reach];

	order(&a, &b, i, length);
	keys[i] = a;
	keys[i + reach] = b;
}

/* The steps from `reach` down to 1 of the runs from `first` to `last`, within a tile. */
__kernel void bitonic_tile(__global uint *keys, uint first, uint last)
{
	__local uint tile[TILE];
	uint t = TX, base = BX * TILE;

	SHARED(tile);

	tile[t] = keys[base + t];
	tile[t + THREADS] = keys[base + t + THREADS];
	for (uint length = first; length <= last; length *= 2)
		for (uint reach = length / 2 < THREADS ? length / 2 : THREADS; reach > 0; reach /= 2) {
			BARRIER();

			uint i = lower(t, reach), a = tile[i], b = tile[i + reach];

			order(&a, &b, base + i, length);
			tile[i] = a;
			tile[i + reach] = b;
		}
	BARRIER();
	keys[base + t] = tile[t];
	keys[base + t + THREADS] = tile[t + THREADS];
}
