#include "kernels.h"

#define LOG2_E 1.44269504f /* log2 of e */
#define LN_2 0.69314718f   /* natural logarithm of 2 */

/* srad. An item is a block of pixels, a part of the sum, or a row. */

struct srad_scaled {
	float *image;
	uint n;
	float factor;
};

void srad_extract(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_scaled *p = params;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p->n); i++)
		p->image[i] = exp2f(p->image[i] * p->factor * LOG2_E);
}

void srad_compress(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_scaled *p = params;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p->n); i++)
		p->image[i] = log2f(p->image[i]) * LN_2 * p->factor;
}

struct srad_sum {
	const float *image;
	float (*partial)[2];
	uint pitch, rows, cols;
};

/* Sums of the columns that are the same modulo LANES: they add up side by side. */
#define LANES 32

void srad_sum(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_sum *p = params;

	for (uint part = from; part < to; part++) {
		float sum[LANES] = { 0 }, squares[LANES] = { 0 }, a = 0, b = 0;

		for (uint y = part; y < p->rows; y += s->grid_x) {
			const float *restrict row = p->image + (size_t)y * p->pitch;
			uint x = 0;

			for (; x + LANES <= p->cols; x += LANES)
				for (uint i = 0; i < LANES; i++) {
					sum[i] += row[x + i];
					squares[i] += row[x + i] * row[x + i];
				}
			for (; x < p->cols; x++) {
				a += row[x];
				b += row[x] * row[x];
			}
		}
		for (uint i = 0; i < LANES; i++) {
			a += sum[i];
			b += squares[i];
		}
		p->partial[part][0] = a;
		p->partial[part][1] = b;
	}
}

struct srad_scale {
	const float (*partial)[2];
	uint parts;
	float n;
	float *scale;
};

void srad_scale(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_scale *p = params;
	float sum = 0, squares = 0;

	(void)s;
	if (from >= to)
		return;
	for (uint i = 0; i < p->parts; i++) {
		sum += p->partial[i][0];
		squares += p->partial[i][1];
	}

	float mean = sum / p->n;
	float q = (squares / p->n - mean * mean) / (mean * mean);

	p->scale[0] = q;
	p->scale[1] = 1.0f / (q * (1.0f + q));
}

struct srad_coefficient {
	const float *image;
	float *coefficient;
	const float *scale;
	uint rows, cols;
};

static float srad_even(float here, float north, float south, float west, float east, float q, float scale)
{
	float n = north - here, s = south - here, w = west - here, e = east - here;
	float inverse = 1.0f / here;
	float gradient = (n * n + s * s + w * w + e * e) * inverse * inverse;
	float laplace = (n + s + w + e) * inverse;
	float d = 1.0f + 0.25f * laplace;
	float now = (0.5f * gradient - 0.0625f * laplace * laplace) / (d * d);
	float c = 1.0f / (1.0f + (now - q) * scale);

	c = c < 0.0f ? 0.0f : c;
	return c > 1.0f ? 1.0f : c;
}

void srad_coefficient(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_coefficient *p = params;
	uint w = p->cols;
	float q = p->scale[0], scale = p->scale[1];

	(void)s;
	for (uint y = from; y < least(to, p->rows); y++) {
		const float *restrict here = p->image + (size_t)y * w;
		const float *restrict north = y == 0 ? here : here - w;
		const float *restrict south = y + 1 == p->rows ? here : here + w;
		float *restrict out = p->coefficient + (size_t)y * w;

		out[0] = srad_even(here[0], north[0], south[0], here[0], here[1], q, scale);
		for (uint x = 1; x < w - 1; x++)
			out[x] = srad_even(here[x], north[x], south[x], here[x - 1], here[x + 1], q, scale);
		out[w - 1] = srad_even(here[w - 1], north[w - 1], south[w - 1], here[w - 2], here[w - 1], q, scale);
	}
}

struct srad_update {
	const float *from;
	float *to;
	const float *coefficient;
	float quarter;
	uint rows, cols;
};

void srad_update(const void *params, const struct shape *s, uint from, uint to)
{
	const struct srad_update *p = params;
	uint w = p->cols;
	float quarter = p->quarter;

	(void)s;
	for (uint y = from; y < least(to, p->rows); y++) {
		size_t at = (size_t)y * w;
		const float *restrict here = p->from + at, *restrict c = p->coefficient + at;
		const float *restrict north = y == 0 ? here : here - w;
		const float *restrict south = y + 1 == p->rows ? here : here + w;
		const float *restrict csouth = y + 1 == p->rows ? c : c + w;
		float *restrict out = p->to + at;

#define FLOW(x, west, east)                                                                                      \
	(here[x] + quarter * (c[x] * (north[x] - here[x] + here[west] - here[x]) + csouth[x] * (south[x] - here[x]) + \
			      c[east] * (here[east] - here[x])))
		out[0] = FLOW(0, 0, 1);
		for (uint x = 1; x < w - 1; x++)
			out[x] = FLOW(x, x - 1, x + 1);
		out[w - 1] = FLOW(w - 1, w - 2, w - 1);
#undef FLOW
	}
}
