//! in bucket 256 u32:below=5
//! inout lock 5 s32:zero
//! inout sum 5 u32:zero u32:zero
//! run locks grid 2 block 128 args bucket lock sum
// Spin locks taken by lanes of one warp: needs lanes that make progress by themselves.
extern "C" __global__ void locks(const unsigned *bucket, int *lock, volatile uint2 *sum) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, b = bucket[i];
  while (atomicCAS(&lock[b], 0, 1) != 0) {}
  __threadfence();
  sum[b].x = sum[b].x + i;
  sum[b].y = sum[b].y + 1;
  __threadfence();
  atomicExch(&lock[b], 0);
}
