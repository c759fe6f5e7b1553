#include "pvdrm.h"

#define BINS 256 /* as many threads has a block */

/* Counts the bytes of n words. bins are 0 before. */
__kernel void histogram(__global const uint *in, __global uint *bins, uint n)
{
	__local uint own[BINS];
	uint t = TX;

	SHARED(own);

	own[t] = 0;
	BARRIER();
	for (uint i = GX; i < n; i += NBX * BINS) {
		uint x = in[i];

		ATOMIC_ADD(&own[x & 255], 1);
		ATOMIC_ADD(&own[x >> 8 & 255], 1);
		ATOMIC_ADD(&own[x >> 16 & 255], 1);
		ATOMIC_ADD(&own[x >> 24], 1);
	}
	BARRIER();
	ATOMIC_ADD(&bins[t], own[t]);
}
