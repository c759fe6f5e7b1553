/*
 * Multiplication of square matrices in row order, for mmul.cl and fmmul.cl,
 * which define NAME, T (an element) and T4 (four of them).
 *
 * A block of 16 x 16 threads makes a tile of 128 x 128 elements of c. It walks
 * along the 128 rows of a and the 128 columns of b in steps of 8, through tiles
 * in local memory; that of a is turned, so that a thread reads its operands as
 * vectors. A thread owns 8 x 8 elements, as four squares of 4 x 4 that lie 64
 * apart: so neighbours read neighbouring vectors. Of each 64 multiply-adds 4
 * come with a load.
 *
 * n is the number of rows and columns, a multiple of 128.
 */

#define TILE 128
#define STEP 8
#define HALF (TILE / 2)

__kernel void NAME(__global const T *a, __global const T *b, __global T *c, uint n)
{
	__local T ta[STEP][TILE] __attribute__((aligned(16)));
	__local T tb[STEP][TILE] __attribute__((aligned(16)));

	SHARED(ta);
	SHARED(tb);

	uint tx = TX, ty = TY;
	uint t = ty * 16 + tx;

	/* Where this thread loads from: half a row of a's tile, and a 32nd of a
	 * row of b's. */
	uint arow = t / 2, acol = t % 2 * 4;
	uint brow = t / 32, bcol = t % 32 * 4;

	__global const T *pa = a + (BY * TILE + arow) * n + acol;
	__global const T *pb = b + brow * n + BX * TILE + bcol;

	T4 sum[8][2];

#pragma unroll
	for (int i = 0; i < 8; i++)
		sum[i][0] = sum[i][1] = 0;

	uint k = 0;

	do {
		T4 va = *(__global const T4 *)pa;
		T4 vb = *(__global const T4 *)pb;

		pa += STEP;
		pb += STEP * n;
		ta[acol + 0][arow] = va.x;
		ta[acol + 1][arow] = va.y;
		ta[acol + 2][arow] = va.z;
		ta[acol + 3][arow] = va.w;
		*(__local T4 *)&tb[brow][bcol] = vb;
		BARRIER();

#pragma unroll 2
		for (int s = 0; s < STEP; s++) {
			T4 a0 = *(__local T4 *)&ta[s][ty * 4];
			T4 a1 = *(__local T4 *)&ta[s][ty * 4 + HALF];
			T4 b0 = *(__local T4 *)&tb[s][tx * 4];
			T4 b1 = *(__local T4 *)&tb[s][tx * 4 + HALF];

#pragma unroll
			for (int i = 0; i < 4; i++) {
				sum[i][0] += a0[i] * b0;
				sum[i][1] += a0[i] * b1;
				sum[i + 4][0] += a1[i] * b0;
				sum[i + 4][1] += a1[i] * b1;
			}
		}
		BARRIER();
		k += STEP;
	} while (k < n);

	__global T *pc = c + (BY * TILE + ty * 4) * n + BX * TILE + tx * 4;

#pragma unroll
	for (int i = 0; i < 8; i++) {
		__global T *row = pc + (i % 4 + i / 4 * HALF) * n;

		*(__global T4 *)row = sum[i][0];
		*(__global T4 *)(row + HALF) = sum[i][1];
	}
}
