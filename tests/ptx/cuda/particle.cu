//! in weights 256 f64:range=0,1
//! out cdf 256 f64
//! out index 256 s32
//! inout seed 256 u32:rand
//! run particle grid 1 block 256 args weights cdf index seed
// Resampling of a particle filter: normalised sums, random numbers, a search.
extern "C" __global__ void particle(const double *weights, double *cdf, int *index, unsigned *seed) {
  __shared__ double s[256];
  int t = threadIdx.x;
  s[t] = weights[t];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    double v = t >= d ? s[t - d] : 0.0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  cdf[t] = s[t] / s[255];
  seed[t] = seed[t] * 1103515245u + 12345u;
  double u = (seed[t] & 0x7fffffff) / 2147483648.0 * s[255];
  int lo = 0, hi = 255;
  while (lo < hi) { int mid = (lo + hi) / 2; if (s[mid] < u) lo = mid + 1; else hi = mid; }
  index[t] = lo;
}
