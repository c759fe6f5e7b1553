//! in keys 1024 u32:below=20
//! inout count 20 u32:zero
//! inout least 20 s32:fill=0x7fffffff
//! out peers 1024 u32
//! run aggregate grid 4 block 256 args keys count least peers
// One atomic for all lanes of a warp that have the same key.
extern "C" __global__ void aggregate(const unsigned *keys, unsigned *count, int *least, unsigned *peers) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned key = keys[i], mask = __match_any_sync(0xffffffff, key);
  peers[i] = mask;
  if (__ffs(mask) - 1 == (threadIdx.x & 31)) atomicAdd(&count[key], __popc(mask));
  atomicMin(&least[key], i);
}
