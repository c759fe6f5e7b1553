/* Prefix sums over the threads of a block, for scan.cl and sort.cl. */

#define THREADS 256

/* What the threads before this one hold in x, added up; sum has a place for each of them. */
static inline uint sum_before(uint x, __local uint *sum)
{
	uint t = TX, s = x;

	sum[t] = s;
	for (uint reach = 1; reach < THREADS; reach *= 2) {
		BARRIER();

		uint before = t >= reach ? sum[t - reach] : 0;

		BARRIER();
		s += before;
		sum[t] = s;
	}
	BARRIER();
	return s - x;
}

/* One block turns n numbers, a multiple of THREADS, into the sums of those before each. */
static inline void scan_all(__global uint *x, uint n, __local uint *sum)
{
	uint each = n / THREADS, first = TX * each, s = 0;

	for (uint i = 0; i < each; i++)
		s += x[first + i];
	s = sum_before(s, sum);
	for (uint i = 0; i < each; i++) {
		uint here = x[first + i];

		x[first + i] = s;
		s += here;
	}
}
