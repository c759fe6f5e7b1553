/*
 * Multiplication of square matrices of 16-bit floating-point numbers in row order, by the matrix
 * instructions of PTX, which OpenCL C lacks; sums and results have 32 bits.
 *
 * A block of 16 x 16 threads makes a tile of 128 x 128 elements of c. It walks along the 128 rows of a
 * and the 128 columns of b in steps of 32, through tiles in local memory whose rows are 16 bytes
 * longer than they need be, so that eight rows lie in different banks. A warp makes 64 x 32
 * elements: four by four products of 16 x 8.
 *
 * n is the number of rows and columns, a multiple of 128.
 */

#include "pvdrm.h"

#ifdef PVDRM_OPENCL
#error "this kernel has instructions of PTX in it"
#endif

#define TILE 128
#define STEP 32
#define PITCH_A (STEP + 8)
#define PITCH_B (TILE + 8)

/* Loads four 8 x 8 matrices, whose rows the lanes name; turned, the rows are columns. */
#define LOAD_MATRICES(turned, r, at)                                                                          \
	__asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0,%1,%2,%3}, [%4];"            \
			 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                             \
			 : "r"((uint)(unsigned long)(at))                                                     \
			 : "memory")

/* c += a * b for a of 16 x 16, b of 16 x 8 and c of 16 x 8 elements. */
#define MULTIPLY_ADD(c, a, b0, b1)                                                                            \
	__asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                                 \
			 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                              \
			 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                             \
			 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

__kernel void hmmul(__global const ushort *a, __global const ushort *b, __global float *c, uint n)
{
	__local ushort ta[TILE][PITCH_A] __attribute__((aligned(16)));
	__local ushort tb[STEP][PITCH_B] __attribute__((aligned(16)));

	SHARED(ta);
	SHARED(tb);

	uint t = TY * 16 + TX, lane = t % 32, warp = t / 32;
	uint row = warp / 4 * 64, col = warp % 4 * 32; /* of the warp's part of the tile */

	/* Where this thread loads from: eight elements of a row of a's tile, and of b's. */
	uint arow = t / 4, acol = t % 4 * 8;
	uint brow = t / 16, bcol = t % 16 * 8;

	__global const ushort *pa = a + (BY * TILE + arow) * n + acol;
	__global const ushort *pb = b + brow * n + BX * TILE + bcol;

	float sum[4][4][4];

#pragma unroll
	for (int i = 0; i < 64; i++)
		sum[i / 16][i / 4 % 4][i % 4] = 0;

	uint k = 0;

	do {
		*(__local uint4 *)&ta[arow][acol] = *(__global const uint4 *)pa;
		*(__local uint4 *)&ta[arow + 64][acol] = *(__global const uint4 *)(pa + 64 * n);
		*(__local uint4 *)&tb[brow][bcol] = *(__global const uint4 *)pb;
		*(__local uint4 *)&tb[brow + 16][bcol] = *(__global const uint4 *)(pb + 16 * n);
		pa += STEP;
		pb += STEP * n;
		BARRIER();

#pragma unroll
		for (int s = 0; s < STEP; s += 16) {
			uint right[2][4];

			LOAD_MATRICES(".trans", right[0], &tb[s + lane % 16][col + lane / 16 * 8]);
			LOAD_MATRICES(".trans", right[1], &tb[s + lane % 16][col + 16 + lane / 16 * 8]);
#pragma unroll
			for (int i = 0; i < 4; i++) {
				uint left[4];

				LOAD_MATRICES("", left, &ta[row + i * 16 + lane % 16][s + lane / 16 * 8]);
#pragma unroll
				for (int j = 0; j < 4; j++)
					MULTIPLY_ADD(sum[i][j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
			}
		}
		BARRIER();
		k += STEP;
	} while (k < n);

	__global float *pc = c + (BY * TILE + row + lane / 4) * n + BX * TILE + col + lane % 4 * 2;

#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			__global float *p = pc + i * 16 * n + j * 8;

			*(__global float2 *)p = (float2)(sum[i][j][0], sum[i][j][1]);
			*(__global float2 *)(p + 8 * n) = (float2)(sum[i][j][2], sum[i][j][3]);
		}
}
