// Warp primitives and cooperative groups.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void warp(unsigned *o, const unsigned *p, float *f, double *d, long long *l) {
  unsigned m = 0xffffffffu, v = p[threadIdx.x];
  int pred = 0;
  o[0] = __shfl_sync(m, v, 3); o[1] = __shfl_up_sync(m, v, 1, 16); o[2] = __shfl_down_sync(m, v, 2); o[3] = __shfl_xor_sync(m, v, 4, 8);
  f[0] = __shfl_sync(m, f[1], v & 31); d[0] = __shfl_xor_sync(m, d[1], 1); l[0] = __shfl_down_sync(m, l[1], 1);
  o[4] = __ballot_sync(m, v & 1); o[5] = __all_sync(m, v > 3); o[6] = __any_sync(m, v == 7); o[7] = __activemask();
#if __CUDA_ARCH__ >= 700
  o[8] = __match_any_sync(m, v); o[9] = __match_all_sync(m, l[2], &pred) + pred;
  __nanosleep(100);
#endif
#if __CUDA_ARCH__ >= 800
  o[10] = __reduce_add_sync(m, v); o[11] = __reduce_max_sync(m, (int)v); o[12] = __reduce_xor_sync(m, v); o[13] = __reduce_min_sync(m, v);
#endif
  __syncwarp(); __syncwarp(0xff);
  o[14] = __syncthreads_count(v & 1) + __syncthreads_and(v & 2) + __syncthreads_or(v & 4);
}
extern "C" __global__ void groups(int *o, const int *p) {
  cg::thread_block b = cg::this_thread_block();
  cg::thread_block_tile<16> t = cg::tiled_partition<16>(b);
  int v = p[b.thread_rank()];
  for (int i = t.size() / 2; i > 0; i /= 2) v += t.shfl_down(v, i);
  cg::coalesced_group c = cg::coalesced_threads();
  if (c.thread_rank() == 0) atomicAdd(o, c.size());
  b.sync();
  if (t.thread_rank() == 0) o[1 + b.thread_rank() / 16] = v + t.any(v > 3);
}
