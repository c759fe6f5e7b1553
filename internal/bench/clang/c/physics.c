#include "kernels.h"

/* An item is a transform: five radix-4 steps of Stockham's method. */

#define N 1024

struct fft {
	const float (*in)[2];
	float (*out)[2];
	const float (*turn)[2];
};

/* Real and imaginary parts lie apart, so that neighbours are done side by side. */
struct fft_data {
	float re[N], im[N];
};

static void fft_step(const struct fft_data *restrict x, struct fft_data *restrict y, const float (*turn)[2], uint step)
{
	for (uint p = 0; p < N / 4; p += step) {
		float w[3][2];

		for (uint k = 0; k < 3; k++)
			memcpy(w[k], turn[(k + 1) * p], sizeof(w[k]));
		for (uint q = 0; q < step; q++) {
			uint i = p + q, o = 4 * p + q;
			float are = x->re[i], aim = x->im[i], bre = x->re[i + N / 4], bim = x->im[i + N / 4];
			float cre = x->re[i + N / 2], cim = x->im[i + N / 2];
			float dre = x->re[i + 3 * N / 4], dim = x->im[i + 3 * N / 4];
			float acre = are + cre, acim = aim + cim, bdre = bre + dre, bdim = bim + dim;
			float mre = are - cre, mim = aim - cim, tre = dim - bim, tim = bre - dre;
			float ure = mre - tre, uim = mim - tim, vre = acre - bdre, vim = acim - bdim;
			float zre = mre + tre, zim = mim + tim;

			y->re[o] = acre + bdre;
			y->im[o] = acim + bdim;
			y->re[o + step] = w[0][0] * ure - w[0][1] * uim;
			y->im[o + step] = w[0][0] * uim + w[0][1] * ure;
			y->re[o + 2 * step] = w[1][0] * vre - w[1][1] * vim;
			y->im[o + 2 * step] = w[1][0] * vim + w[1][1] * vre;
			y->re[o + 3 * step] = w[2][0] * zre - w[2][1] * zim;
			y->im[o + 3 * step] = w[2][0] * zim + w[2][1] * zre;
		}
	}
}

void fft(const void *params, const struct shape *s, uint from, uint to)
{
	const struct fft *p = params;
	struct fft_data x, y;

	(void)s;
	for (uint item = from; item < to; item++) {
		const float (*in)[2] = p->in + (size_t)item * N;
		float (*out)[2] = p->out + (size_t)item * N;

		for (uint i = 0; i < N; i++) {
			x.re[i] = in[i][0];
			x.im[i] = in[i][1];
		}
		fft_step(&x, &y, p->turn, 1);
		fft_step(&y, &x, p->turn, 4);
		fft_step(&x, &y, p->turn, 16);
		fft_step(&y, &x, p->turn, 64);
		fft_step(&x, &y, p->turn, 256);
		for (uint i = 0; i < N; i++) {
			out[i][0] = y.re[i];
			out[i][1] = y.im[i];
		}
	}
}

/* An item is the bodies of a block, of which LANES are done side by side. */

#define LANES 16

struct nbody {
	const float (*body)[4];
	float (*pull)[4];
	uint n;
	float soft;
};

void nbody(const void *params, const struct shape *s, uint from, uint to)
{
	const struct nbody *p = params;

	for (uint first = from * s->block_x; first < to * s->block_x; first += LANES) {
		float x[LANES], y[LANES], z[LANES], sum[4][LANES] = { 0 };

		for (uint l = 0; l < LANES; l++) {
			x[l] = p->body[first + l][0];
			y[l] = p->body[first + l][1];
			z[l] = p->body[first + l][2];
		}
		for (uint k = 0; k < p->n; k++) {
			const float *b = p->body[k];

			for (uint l = 0; l < LANES; l++) {
				float dx = b[0] - x[l], dy = b[1] - y[l], dz = b[2] - z[l];
				float near = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + p->soft);
				float m = b[3] * near, pull = m * near * near;

				sum[0][l] += pull * dx;
				sum[1][l] += pull * dy;
				sum[2][l] += pull * dz;
				sum[3][l] += m;
			}
		}
		for (uint l = 0; l < LANES; l++)
			for (uint k = 0; k < 4; k++)
				p->pull[first + l][k] = sum[k][l];
	}
}
