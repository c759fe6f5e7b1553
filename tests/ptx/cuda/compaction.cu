//! in in 512 u32:below=100
//! out out 512 u32
//! out n 4 u32
//! run compact grid 4 block 128 args in out n
// Keeps the multiples of three in order: ballots in warps, a count in the block.
extern "C" __global__ void compact(const unsigned *in, unsigned *out, unsigned *n) {
  __shared__ unsigned base[4];
  unsigned v = in[blockIdx.x * 128 + threadIdx.x], lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  bool keep = v % 3 == 0;
  unsigned votes = __ballot_sync(0xffffffff, keep);
  if (lane == 0) base[warp] = __popc(votes);
  unsigned all = __syncthreads_count(keep), at = __popc(votes & ((1u << lane) - 1));
  for (int w = 0; w < warp; w++) at += base[w];
  if (keep) out[blockIdx.x * 128 + at] = v;
  if (threadIdx.x == 0) n[blockIdx.x] = all;
}
