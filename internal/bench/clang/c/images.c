#include "kernels.h"

/* An item is a row, or of transpose a tile. */

#define TAPS 7

struct conv2d {
	const float *in;
	float *out;
	const float *weight;
	uint width;
};

void conv2d(const void *params, const struct shape *s, uint from, uint to)
{
	const struct conv2d *p = params;
	uint width = p->width, pitch = width + TAPS - 1;

	(void)s;
	for (uint y = from; y < to; y++) {
		float *restrict out = p->out + (size_t)y * width;

		for (uint x = 0; x < width; x += 32) {
			float sum[32] = { 0 };

			for (uint v = 0; v < TAPS; v++)
				for (uint u = 0; u < TAPS; u++) {
					const float *restrict in = p->in + (size_t)(y + v) * pitch + x + u;
					float w = p->weight[v * TAPS + u];

					for (uint i = 0; i < 32; i++)
						sum[i] += w * in[i];
				}
			memcpy(out + x, sum, sizeof(sum));
		}
	}
}

struct sobel {
	const uint8_t *in;
	uint8_t *out;
	uint width, height;
};

void sobel(const void *params, const struct shape *s, uint from, uint to)
{
	const struct sobel *p = params;
	uint pitch = p->width + 2;

	(void)s;
	for (uint y = from; y < least(to, p->height); y++) {
		const uint8_t *restrict a = p->in + (size_t)y * pitch, *restrict b = a + pitch, *restrict c = b + pitch;
		uint8_t *restrict out = p->out + (size_t)y * p->width;

		for (uint x = 0; x < p->width; x++) {
			int16_t across = (int16_t)(a[x + 2] + 2 * b[x + 2] + c[x + 2] - a[x] - 2 * b[x] - c[x]);
			int16_t down = (int16_t)(c[x] + 2 * c[x + 1] + c[x + 2] - a[x] - 2 * a[x + 1] - a[x + 2]);
			int16_t steep = (int16_t)((across < 0 ? -across : across) + (down < 0 ? -down : down));

			out[x] = (uint8_t)(steep > 255 ? 255 : steep);
		}
	}
}

#define TILE 32

struct transpose {
	const uint *in;
	uint *out, n;
};

void transpose(const void *params, const struct shape *s, uint from, uint to)
{
	const struct transpose *p = params;
	size_t n = p->n;
	uint tile[TILE][TILE];

	for (uint item = from; item < to; item++) {
		size_t x = item % s->grid_x * TILE, y = item / s->grid_x * TILE;

		for (uint r = 0; r < TILE; r++)
			memcpy(tile[r], p->in + (y + r) * n + x, sizeof(tile[r]));
		for (uint r = 0; r < TILE; r++)
			for (uint c = 0; c < TILE; c++)
				p->out[(x + r) * n + y + c] = tile[c][r];
	}
}
