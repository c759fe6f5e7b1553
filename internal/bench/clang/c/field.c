#include "kernels.h"

/* hs: an item is a row. */

struct hs_step {
	const float *from, *power;
	float *to;
	uint width, height;
	float kpower, kx, ky, kair, air;
};

static float hs_cell(const struct hs_step *p, float here, float power, float north, float south, float west,
		     float east)
{
	float t = here + p->kpower * power;

	t += p->ky * (north + south - 2.0f * here);
	t += p->kx * (west + east - 2.0f * here);
	return t + p->kair * (p->air - here);
}

void hs_step(const void *params, const struct shape *s, uint from, uint to)
{
	const struct hs_step p = *(const struct hs_step *)params;
	uint w = p.width;

	(void)s;
	for (uint y = from; y < least(to, p.height); y++) {
		const float *restrict here = p.from + y * w, *restrict power = p.power + y * w;
		const float *restrict north = y == 0 ? here : here - w;
		const float *restrict south = y + 1 == p.height ? here : here + w;
		float *restrict out = p.to + y * w;

		out[0] = hs_cell(&p, here[0], power[0], north[0], south[0], here[0], here[1]);
		for (uint x = 1; x < w - 1; x++)
			out[x] = hs_cell(&p, here[x], power[x], north[x], south[x], here[x - 1], here[x + 1]);
		out[w - 1] = hs_cell(&p, here[w - 1], power[w - 1], north[w - 1], south[w - 1], here[w - 2], here[w - 1]);
	}
}

/* nn: an item is a block of places. */

struct nn {
	const float (*place)[2];
	float *distance;
	uint n;
	float latitude, longitude;
};

void nn(const void *params, const struct shape *s, uint from, uint to)
{
	const struct nn p = *(const struct nn *)params;
	const float (*restrict place)[2] = p.place;
	float *restrict distance = p.distance;

	for (uint i = from * s->block_x; i < least(to * s->block_x, p.n); i++) {
		float dx = place[i][0] - p.latitude, dy = place[i][1] - p.longitude;

		distance[i] = sqrtf(dx * dx + dy * dy);
	}
}
