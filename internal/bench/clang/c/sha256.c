#include "kernels.h"

/* An item is a block of messages, of which LANES are done side by side. */

#define LANES 16

struct sha256 {
	const uint *in;
	uint *out;
	const uint *k, *start;
	uint n;
};

static inline uint right(uint x, uint n)
{
	return x >> n | x << (32 - n);
}

void sha256(const void *params, const struct shape *s, uint from, uint to)
{
	const struct sha256 p = *(const struct sha256 *)params;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p.n); i += LANES) {
		uint w[64][LANES], h[8][LANES], count = least(LANES, p.n - i);

		for (uint r = 0; r < 16; r++)
			for (uint l = 0; l < LANES; l++)
				w[r][l] = l < count ? p.in[r * p.n + i + l] : 0;
		for (uint r = 16; r < 64; r++)
			for (uint l = 0; l < LANES; l++) {
				uint a = w[r - 15][l], b = w[r - 2][l];

				w[r][l] = w[r - 16][l] + (right(a, 7) ^ right(a, 18) ^ a >> 3) + w[r - 7][l] +
					  (right(b, 17) ^ right(b, 19) ^ b >> 10);
			}
		for (uint r = 0; r < 8; r++)
			for (uint l = 0; l < LANES; l++)
				h[r][l] = p.start[r];
		for (uint r = 0; r < 64; r++)
			for (uint l = 0; l < LANES; l++) {
				uint a = h[0][l], b = h[1][l], c = h[2][l], e = h[4][l], f = h[5][l], g = h[6][l];
				uint t1 = h[7][l] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + p.k[r] + w[r][l];
				uint t2 = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

				h[7][l] = g;
				h[6][l] = f;
				h[5][l] = e;
				h[4][l] = h[3][l] + t1;
				h[3][l] = c;
				h[2][l] = b;
				h[1][l] = a;
				h[0][l] = t1 + t2;
			}
		for (uint r = 0; r < 8; r++)
			for (uint l = 0; l < count; l++)
				p.out[r * p.n + i + l] = h[r][l] + p.start[r];
	}
}
