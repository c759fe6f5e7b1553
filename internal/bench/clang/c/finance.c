#include "kernels.h"

#define LOG2_E 1.44269504f /* log2 of e */
#define LN_2 0.69314718f   /* natural logarithm of 2 */

/* An item is a block of options. */

struct blackscholes {
	const float *price, *strike, *years;
	float *call, *put;
	uint n;
	float rate, volatility;
};

static float normal(float d)
{
	float a = d < 0 ? -d : d, k = 1.0f / (1.0f + 0.2316419f * a);
	float tail = 0.39894228f * exp2f(-0.5f * LOG2_E * d * d) * k *
		     (0.31938153f + k * (-0.35656378f + k * (1.78147794f + k * (-1.82125598f + k * 1.33027443f))));

	return d > 0 ? 1.0f - tail : tail;
}

void blackscholes(const void *params, const struct shape *s, uint from, uint to)
{
	const struct blackscholes p = *(const struct blackscholes *)params;
	float *restrict call = p.call, *restrict put = p.put;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p.n); i++) {
		float v = p.price[i], x = p.strike[i], t = p.years[i], root = sqrtf(t);
		float d1 = (LN_2 * log2f(v / x) + (p.rate + 0.5f * p.volatility * p.volatility) * t) / (p.volatility * root);
		float n1 = normal(d1), n2 = normal(d1 - p.volatility * root), later = x * exp2f(-LOG2_E * p.rate * t);

		call[i] = v * n1 - later * n2;
		put[i] = later * (1.0f - n2) - v * (1.0f - n1);
	}
}

/* An item is an option. */

#define STEPS 512

struct binomial {
	const float *price, *strike;
	float *call;
	float up, rise, fall;
};

void binomial(const void *params, const struct shape *s, uint from, uint to)
{
	const struct binomial *p = params;
	float value[STEPS + 1], rise = p->rise, fall = p->fall;

	(void)s;
	for (uint option = from; option < to; option++) {
		for (uint i = 0; i <= STEPS; i++) {
			float gain = p->price[option] * exp2f(p->up * (2.0f * (float)i - STEPS)) - p->strike[option];

			value[i] = gain > 0 ? gain : 0;
		}
		for (uint step = STEPS; step > 0; step--)
			for (uint i = 0; i < step; i++)
				value[i] = rise * value[i + 1] + fall * value[i];
		p->call[option] = value[0];
	}
}
