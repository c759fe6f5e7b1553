//! in in 512 f32:range=-4,4
//! out out 512 f32
//! run haar grid 2 block 128 args in out
// Haar wavelet transform of 256 numbers a block.
extern "C" __global__ void haar(const float *in, float *out) {
  __shared__ float s[256];
  const float *g = in + blockIdx.x * 256;
  float *o = out + blockIdx.x * 256;
  int t = threadIdx.x;
  s[t] = g[t];
  s[t + 128] = g[t + 128];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    float a = 0, b = 0;
    if (t < half) { a = s[2 * t]; b = s[2 * t + 1]; }
    __syncthreads();
    if (t < half) { s[t] = (a + b) * 0.70710678f; o[half + t] = (a - b) * 0.70710678f; }
    __syncthreads();
  }
  if (t == 0) o[0] = s[0];
}
