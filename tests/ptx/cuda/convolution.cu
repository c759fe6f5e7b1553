//! in in 2048 f32:range=-1,1
//! out out 2048 f32
//! run rows grid 1,32 block 64 args in out s32=64
// A row filter with its coefficients in constant memory.
__constant__ float kernel[9] = {0.05f, 0.09f, 0.12f, 0.15f, 0.18f, 0.15f, 0.12f, 0.09f, 0.05f};
extern "C" __global__ void rows(const float *in, float *out, int w) {
  __shared__ float s[64 + 8];
  int t = threadIdx.x, y = blockIdx.y;
  s[t + 4] = in[y * w + t];
  if (t < 4) { s[t] = in[y * w]; s[t + 68] = in[y * w + w - 1]; }
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 9; k++) sum += s[t + k] * kernel[k];
  out[y * w + t] = sum;
}
