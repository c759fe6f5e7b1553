//! inout re 512 f32:range=-1,1
//! inout im 512 f32:range=-1,1
//! in twiddle 128 f32:range=-1,1 f32:range=-1,1
//! run fft grid 2 block 128 args re im twiddle
// The butterflies of a fast Fourier transform of 256 points; factors come from outside.
extern "C" __global__ void fft(float *re, float *im, const float2 *twiddle) {
  __shared__ float2 s[256];
  float *r = re + blockIdx.x * 256, *m = im + blockIdx.x * 256;
  for (int k = threadIdx.x; k < 256; k += 128) s[__brev(k) >> 24] = make_float2(r[k], m[k]);
  for (int half = 1; half < 256; half *= 2) {
    __syncthreads();
    int t = threadIdx.x, j = t & (half - 1), a = 2 * t - j, b = a + half;
    float2 w = twiddle[j * (128 / half)], x = s[a], y = s[b];
    float2 p = make_float2(y.x * w.x - y.y * w.y, y.x * w.y + y.y * w.x);
    s[a] = make_float2(x.x + p.x, x.y + p.y);
    s[b] = make_float2(x.x - p.x, x.y - p.y);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < 256; k += 128) { r[k] = s[k].x; m[k] = s[k].y; }
}
