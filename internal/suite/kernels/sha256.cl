#include "pvdrm.h"

static inline uint right(uint x, uint n)
{
	return x >> n | x << (32 - n);
}

/*
 * SHA-256 of n messages of one block, whose 16 words of padded text lie n apart,
 * as the 8 words of a hash do. k has the 64 constants, start the first hash.
 */
__kernel void sha256(__global const uint *in, __global uint *out, __global const uint *k,
		     __global const uint *start, uint n)
{
	uint i = GX;

	if (i >= n)
		return;

	uint w[16], h[8];

#pragma unroll
	for (uint r = 0; r < 16; r++)
		w[r] = in[r * n + i];
#pragma unroll
	for (uint r = 0; r < 8; r++)
		h[r] = start[r];
	for (uint first = 0; first < 64; first += 16) {
#pragma unroll
		for (uint r = 0; r < 16; r++) {
			if (first > 0) {
				uint a = w[(r + 1) % 16], b = w[(r + 14) % 16];

				w[r] += (right(a, 7) ^ right(a, 18) ^ a >> 3) + w[(r + 9) % 16] +
					(right(b, 17) ^ right(b, 19) ^ b >> 10);
			}

			uint t1 = h[7] + (right(h[4], 6) ^ right(h[4], 11) ^ right(h[4], 25)) +
				  ((h[4] & h[5]) ^ (~h[4] & h[6])) + k[first + r] + w[r];
			uint t2 = (right(h[0], 2) ^ right(h[0], 13) ^ right(h[0], 22)) +
				  ((h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]));

			h[7] = h[6];
			h[6] = h[5];
			h[5] = h[4];
			h[4] = h[3] + t1;
			h[3] = h[2];
			h[2] = h[1];
			h[1] = h[0];
			h[0] = t1 + t2;
		}
	}
#pragma unroll
	for (uint r = 0; r < 8; r++)
		out[r * n + i] = h[r] + start[r];
}
