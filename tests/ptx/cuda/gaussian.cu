//! inout a 256 f32:range=1,2
//! inout b 16 f32:range=-1,1
//! out m 256 f32
//! run fan grid 1 block 16,16 args a b m s32=16
// Gaussian elimination.
extern "C" __global__ void fan(float *a, float *b, float *m, int n) {
  int x = threadIdx.x, y = threadIdx.y;
  m[y * n + x] = 0;
  if (x == y) a[y * n + x] += 20;
  __syncthreads();
  for (int k = 0; k < n - 1; k++) {
    if (x == k && y > k) m[y * n + k] = a[y * n + k] / a[k * n + k];
    __syncthreads();
    if (y > k && x >= k) a[y * n + x] -= m[y * n + k] * a[k * n + x];
    if (y > k && x == k) b[y] -= m[y * n + k] * b[k];
    __syncthreads();
  }
}
