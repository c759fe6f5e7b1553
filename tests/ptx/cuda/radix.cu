//! inout keys 512 u32:rand
//! run radix grid 2 block 256 args keys
// Radix sort, a bit at a time: ballots, popcounts and a scan of warp totals.
extern "C" __global__ void radix(unsigned *keys) {
  __shared__ unsigned s[256], zeros[8];
  unsigned key = keys[blockIdx.x * 256 + threadIdx.x], lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  for (int bit = 0; bit < 32; bit++) {
    unsigned ones = __ballot_sync(0xffffffff, key >> bit & 1);
    if (lane == 0) zeros[warp] = 32 - __popc(ones);
    __syncthreads();
    unsigned before = 0, all = 0;
    for (int w = 0; w < 8; w++) { if (w < warp) before += zeros[w]; all += zeros[w]; }
    unsigned onesBefore = __popc(ones & ((1u << lane) - 1));
    unsigned to = key >> bit & 1 ? all + (warp * 32 - before) + onesBefore : before + lane - onesBefore;
    s[to] = key;
    __syncthreads();
    key = s[threadIdx.x];
    __syncthreads();
  }
  keys[blockIdx.x * 256 + threadIdx.x] = key;
}
