//! inout m 1024 f32:range=1,3
//! run lud grid 1 block 32 args m
// LU decomposition without pivoting of a matrix in shared memory.
extern "C" __global__ void lud(float *m) {
  __shared__ float s[32][33];
  int t = threadIdx.x;
  for (int i = 0; i < 32; i++) s[i][t] = m[i * 32 + t] + (i == t ? 40.0f : 0.0f);
  __syncthreads();
  for (int k = 0; k < 31; k++) {
    if (t > k) {
      s[t][k] /= s[k][k];
      for (int j = k + 1; j < 32; j++) s[t][j] -= s[t][k] * s[k][j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 32; i++) m[i * 32 + t] = s[i][t];
}
