//! in a 3072 f32:range=-2,2
//! in b 3072 f32:range=-2,2
//! out c 2304 f32
//! run matmul grid 3,3 block 16,16 args a b c s32=48 s32=64
// Product of 48×64 and 64×48 through tiles in shared memory.
#define T 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n, int k) {
  __shared__ float ta[T][T], tb[T][T];
  int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += T) {
    ta[threadIdx.y][threadIdx.x] = a[row * k + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; i++) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
