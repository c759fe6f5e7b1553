#include "pvdrm.h"

/* The normal distribution, by formula 26.2.17 of Abramowitz and Stegun. */
static inline float normal(float d)
{
	float a = d < 0 ? -d : d, k = 1.0f / (1.0f + 0.2316419f * a);
	float tail = 0.39894228f * EX2(-0.5f * LOG2_E * d * d) * k *
		     (0.31938153f + k * (-0.35656378f + k * (1.78147794f + k * (-1.82125598f + k * 1.33027443f))));

	return d > 0 ? 1.0f - tail : tail;
}

/* The prices of European options, by Black and Scholes. */
__kernel void blackscholes(__global const float *price, __global const float *strike,
			   __global const float *years, __global float *call, __global float *put, uint n,
			   float rate, float volatility)
{
	uint i = GX;

	if (i >= n)
		return;

	float s = price[i], x = strike[i], t = years[i], root = SQRT(t);
	float d1 = (LN_2 * LG2(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
	float d2 = d1 - volatility * root;
	float n1 = normal(d1), n2 = normal(d2), later = x * EX2(-LOG2_E * rate * t);

	call[i] = s * n1 - later * n2;
	put[i] = later * (1.0f - n2) - s * (1.0f - n1);
}
