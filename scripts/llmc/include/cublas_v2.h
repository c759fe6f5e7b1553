// The two products of cuBLAS that llm.c's fp32 program calls, as kernels: it has none of its own for them.
#ifndef LLMC_CUBLAS_H
#define LLMC_CUBLAS_H

#include <cuda_runtime.h>

typedef int cublasStatus_t, cublasComputeType_t, cublasMath_t, cublasOperation_t;
typedef void *cublasHandle_t;
enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

// A block makes a tile of 64 rows and 64 columns of c; a lane of a warp two rows, and the warp eight columns.
enum { SGEMM_TILE = 64, SGEMM_DEPTH = 16 };

// sgemm is c = alpha a b + beta c by columns, c of m rows and n columns, k in depth; transposed are a, b.
template <bool TA, bool TB>
static __global__ void __launch_bounds__(256) sgemm(int m, int n, int k, float alpha, const float *a, int lda, long stride_a,
	const float *b, int ldb, long stride_b, float beta, float *c, int ldc, long stride_c)
{
	__shared__ float as[SGEMM_DEPTH][SGEMM_TILE];
	__shared__ float bs[SGEMM_DEPTH][SGEMM_TILE];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int row = blockIdx.x * SGEMM_TILE, column = blockIdx.y * SGEMM_TILE;
	a += blockIdx.z * stride_a, b += blockIdx.z * stride_b, c += blockIdx.z * stride_c;
	float sums[2][8] = {};
	for (int at = 0; at < k; at += SGEMM_DEPTH) {
		for (int i = threadIdx.x; i < SGEMM_TILE * SGEMM_DEPTH; i += 256) {
			int x = TA ? i / SGEMM_DEPTH : i % SGEMM_TILE, depth = TA ? i % SGEMM_DEPTH : i / SGEMM_TILE;
			int r = row + x, d = at + depth;
			as[depth][x] = r < m && d < k ? TA ? a[(long)r * lda + d] : a[(long)d * lda + r] : 0;
		}
		for (int i = threadIdx.x; i < SGEMM_TILE * SGEMM_DEPTH; i += 256) {
			int x = TB ? i % SGEMM_TILE : i / SGEMM_DEPTH, depth = TB ? i / SGEMM_TILE : i % SGEMM_DEPTH;
			int col = column + x, d = at + depth;
			bs[depth][x] = col < n && d < k ? TB ? b[(long)d * ldb + col] : b[(long)col * ldb + d] : 0;
		}
		__syncthreads();
		for (int d = 0; d < SGEMM_DEPTH; d++) {
			float upper = as[d][lane], lower = as[d][lane + 32];
			for (int j = 0; j < 8; j++) {
				float of_b = bs[d][8 * warp + j];
				sums[0][j] += upper * of_b;
				sums[1][j] += lower * of_b;
			}
		}
		__syncthreads();
	}
	for (int j = 0; j < 8; j++) {
		int col = column + 8 * warp + j;
		for (int half = 0; half < 2; half++) {
			int r = row + lane + 32 * half;
			if (r < m && col < n) {
				float *to = &c[(long)col * ldc + r];
				*to = alpha * sums[half][j] + (beta == 0 ? 0 : beta * *to);
			}
		}
	}
}

static inline cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
	const float *alpha, const float *a, int lda, long stride_a, const float *b, int ldb, long stride_b,
	const float *beta, float *c, int ldc, long stride_c, int count)
{
	dim3 grid((m + SGEMM_TILE - 1) / SGEMM_TILE, (n + SGEMM_TILE - 1) / SGEMM_TILE, count);
	auto kernel = ta ? tb ? sgemm<true, true> : sgemm<true, false> : tb ? sgemm<false, true> : sgemm<false, false>;
	kernel<<<grid, 256>>>(m, n, k, *alpha, a, lda, stride_a, b, ldb, stride_b, *beta, c, ldc, stride_c);
	return cudaGetLastError();
}

static inline cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
	const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
	return cublasSgemmStridedBatched(h, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

#endif
