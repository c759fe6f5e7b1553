//! in seeds 256 u32:rand
//! out hits 256 u32
//! inout total 1 u64:zero
//! run pi grid 2 block 128 args seeds hits total s32=200
// Points in a circle by a multiplicative generator; 64-bit products and atomics.
extern "C" __global__ void pi(const unsigned *seeds, unsigned *hits, unsigned long long *total, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long s = seeds[i] | 1ull << 33;
  unsigned n = 0;
  for (int r = 0; r < rounds; r++) {
    s = s * 6364136223846793005ull + 1442695040888963407ull;
    float x = (s >> 40) * (1.0f / 16777216.0f), y = (s >> 16 & 0xffffff) * (1.0f / 16777216.0f);
    n += x * x + y * y < 1.0f;
  }
  hits[i] = n;
  atomicAdd(total, (unsigned long long)n);
}
