//! inout keys 1024 u32:rand u32:iota
//! run bitonic grid 2 block 256 args keys
// Bitonic sort of 512 pairs of key and value a block in shared memory.
extern "C" __global__ void bitonic(uint2 *keys) {
  __shared__ uint2 s[512];
  uint2 *g = keys + blockIdx.x * 512;
  s[threadIdx.x] = g[threadIdx.x];
  s[threadIdx.x + 256] = g[threadIdx.x + 256];
  for (unsigned size = 2; size <= 512; size *= 2)
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      bool up = (threadIdx.x & (size / 2)) == 0;
      uint2 a = s[pos], b = s[pos + stride];
      if ((a.x > b.x) == up) { s[pos] = b; s[pos + stride] = a; }
    }
  __syncthreads();
  g[threadIdx.x] = s[threadIdx.x];
  g[threadIdx.x + 256] = s[threadIdx.x + 256];
}
