/* Sums and maxima over the threads of a block that works on a row, for layernorm.cl and softmax.cl. */

#define THREADS 256

static inline float row_sum(float x, __local float *all)
{
	uint t = TX;

	BARRIER();
	all[t] = x;
	for (uint reach = THREADS / 2; reach > 0; reach /= 2) {
		BARRIER();
		if (t < reach) {
			x += all[t + reach];
			all[t] = x;
		}
	}
	BARRIER();
	return all[0];
}

static inline float row_most(float x, __local float *all)
{
	uint t = TX;

	BARRIER();
	all[t] = x;
	for (uint reach = THREADS / 2; reach > 0; reach /= 2) {
		BARRIER();
		if (t < reach) {
			x = all[t + reach] > x ? all[t + reach] : x;
			all[t] = x;
		}
	}
	BARRIER();
	return all[0];
}
