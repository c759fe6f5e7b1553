#include "kernels.h"

#define LOG2_E 1.44269504f /* log2 of e */

/* bp: an item is the inputs, or the weights, of a block; of bp_hidden all at once. */

#define HIDDEN 16
#define CHUNK 512 /* inputs of a block of bp_forward */

static float sigmoid(float x)
{
	return 1.0f / (1.0f + exp2f(-x * LOG2_E));
}

struct bp_forward {
	const float *in, *weight;
	float *partial;
};

void bp_forward(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bp_forward *p = params;

	(void)s;
	for (uint block = from; block < to; block++) {
		const float *restrict in = p->in + (size_t)block * CHUNK;
		const float *restrict weight = p->weight + (size_t)block * CHUNK * HIDDEN;
		float sum[HIDDEN] = { 0 };

		for (uint i = 0; i < CHUNK; i++)
			for (uint j = 0; j < HIDDEN; j++)
				sum[j] += in[i] * weight[i * HIDDEN + j];
		memcpy(p->partial + block * HIDDEN, sum, sizeof(sum));
	}
}

struct bp_hidden {
	const float *partial;
	uint parts;
	const float *bias;
	float *weight, *delta, *state;
	float target, rate, momentum;
};

void bp_hidden(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bp_hidden *p = params;
	float sum[HIDDEN], *active = p->state, *error = p->state + HIDDEN, *out = p->state + 2 * HIDDEN;

	(void)s;
	if (from >= to)
		return;
	memcpy(sum, p->bias, sizeof(sum));
	for (uint i = 0; i < p->parts; i++)
		for (uint j = 0; j < HIDDEN; j++)
			sum[j] += p->partial[i * HIDDEN + j];

	float o = p->weight[HIDDEN];

	for (uint j = 0; j < HIDDEN; j++) {
		active[j] = sigmoid(sum[j]);
		o += active[j] * p->weight[j];
	}
	out[0] = o = sigmoid(o);
	out[1] = o * (1.0f - o) * (p->target - o);
	for (uint j = 0; j <= HIDDEN; j++) {
		float h = j < HIDDEN ? active[j] : 1.0f, d = p->rate * out[1] * h + p->momentum * p->delta[j];

		if (j < HIDDEN)
			error[j] = h * (1.0f - h) * out[1] * p->weight[j];
		p->weight[j] += d;
		p->delta[j] = d;
	}
}

struct bp_adjust {
	const float *in;
	float *weight, *delta;
	const float *error;
	uint rows;
	float rate, momentum;
};

void bp_adjust(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bp_adjust p = *(const struct bp_adjust *)params;
	uint rows = s->block_x * 4 / HIDDEN; /* of a block, whose threads have four weights each */

	for (uint i = from * rows; i < least(to * rows, p.rows); i++) {
		float *restrict weight = p.weight + (size_t)i * HIDDEN, *restrict delta = p.delta + (size_t)i * HIDDEN;
		const float *restrict error = p.error;

		for (uint j = 0; j < HIDDEN; j++) {
			delta[j] = p.rate * p.in[i] * error[j] + p.momentum * delta[j];
			weight[j] += delta[j];
		}
	}
}

/*
 * bfs: an item is the vertices of a block, four a thread. Threads that reach a
 * vertex at once write the same, as on the GPU.
 */

struct bfs_step {
	const uint *first, *edge;
	int *level;
	uint *more, n;
	int now;
};

void bfs_step(const void *params, const struct shape *s, uint from, uint to)
{
	const struct bfs_step p = *(const struct bfs_step *)params;

	for (uint v = from * s->block_x * 4; v < least(to * s->block_x * 4, p.n); v++) {
		if (__atomic_load_n(&p.level[v], __ATOMIC_RELAXED) != p.now)
			continue;
		for (uint e = p.first[v]; e < p.first[v + 1]; e++) {
			int *level = &p.level[p.edge[e]];

			if (__atomic_load_n(level, __ATOMIC_RELAXED) < 0) {
				__atomic_store_n(level, p.now + 1, __ATOMIC_RELAXED);
				__atomic_store_n(p.more, 1, __ATOMIC_RELAXED);
			}
		}
	}
}
