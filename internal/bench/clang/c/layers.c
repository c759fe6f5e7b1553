#include "kernels.h"

#define LOG2_E 1.44269504f /* log2 of e */
#define LANES 32

/* attention: an item is the queries of a block. */

#define DIM 32
#define MOST 4096 /* keys of a head */

struct attention {
	const float *query, *keys, *value;
	float *out;
	uint n;
	float scale;
};

void attention(const void *params, const struct shape *s, uint from, uint to)
{
	const struct attention *p = params;
	uint n = least(p->n, MOST);
	float score[MOST];

	for (uint item = from; item < to; item++) {
		size_t head = (size_t)(item / s->grid_x) * p->n * DIM;
		const float *keys = p->keys + head, *value = p->value + head;

		for (uint i = 0; i < s->block_x; i++) {
			size_t row = head + (size_t)(item % s->grid_x * s->block_x + i) * DIM;
			float most = -1e30f, all = 0, sum[DIM] = { 0 };

			memset(score, 0, n * sizeof(score[0]));
			for (uint d = 0; d < DIM; d++) {
				float q = p->query[row + d] * p->scale;

				for (uint j = 0; j < n; j++)
					score[j] += q * keys[d * n + j];
			}
			for (uint j = 0; j < n; j++)
				most = score[j] > most ? score[j] : most;
			for (uint j = 0; j < n; j++) {
				float w = exp2f(score[j] - most);

				all += w;
				for (uint d = 0; d < DIM; d++)
					sum[d] += w * value[j * DIM + d];
			}
			for (uint d = 0; d < DIM; d++)
				p->out[row + d] = sum[d] / all;
		}
	}
}

/* layernorm and softmax: an item is a row, of a width that is a multiple of LANES. */

static float added(const float *lanes)
{
	float sum = 0;

	for (uint l = 0; l < LANES; l++)
		sum += lanes[l];
	return sum;
}

struct layernorm {
	const float *in;
	float *out;
	const float *gain, *bias;
	uint width;
};

void layernorm(const void *params, const struct shape *s, uint from, uint to)
{
	const struct layernorm *p = params;
	uint w = p->width;

	(void)s;
	for (uint y = from; y < to; y++) {
		const float *restrict row = p->in + (size_t)y * w, *restrict gain = p->gain, *restrict bias = p->bias;
		float *restrict out = p->out + (size_t)y * w;
		float sum[LANES] = { 0 }, squares[LANES] = { 0 };

		for (uint x = 0; x < w; x += LANES)
			for (uint l = 0; l < LANES; l++)
				sum[l] += row[x + l];

		float mean = added(sum) / (float)w;

		for (uint x = 0; x < w; x += LANES)
			for (uint l = 0; l < LANES; l++)
				squares[l] += (row[x + l] - mean) * (row[x + l] - mean);

		float inverse = 1.0f / sqrtf(added(squares) / (float)w + 1e-5f);

		for (uint x = 0; x < w; x++)
			out[x] = (row[x] - mean) * inverse * gain[x] + bias[x];
	}
}

struct softmax {
	const float *in;
	float *out;
	uint width;
};

void softmax(const void *params, const struct shape *s, uint from, uint to)
{
	const struct softmax *p = params;
	uint w = p->width;

	(void)s;
	for (uint y = from; y < to; y++) {
		const float *restrict row = p->in + (size_t)y * w;
		float *restrict out = p->out + (size_t)y * w;
		float most = row[0], sum = 0;

		for (uint x = 1; x < w; x++)
			most = row[x] > most ? row[x] : most;
		for (uint x = 0; x < w; x++) {
			out[x] = exp2f((row[x] - most) * LOG2_E);
			sum += out[x];
		}
		for (uint x = 0; x < w; x++)
			out[x] *= 1.0f / sum;
	}
}
