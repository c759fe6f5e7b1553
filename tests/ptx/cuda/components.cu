//! in edges 400 u32:below=512 u32:below=512
//! inout label 512 u32:iota
//! run components grid 1 block 512 args edges label s32=400
// Connected components by the smallest label, until nothing changes.
extern "C" __global__ void components(const uint2 *edges, unsigned *label, int n) {
  bool changed = true;
  while (__syncthreads_or(changed)) {
    changed = false;
    if (threadIdx.x < n) {
      uint2 e = edges[threadIdx.x];
      unsigned a = atomicAdd(&label[e.x], 0), b = atomicAdd(&label[e.y], 0);
      if (a < b) { atomicMin(&label[e.y], a); changed = true; }
      if (b < a) { atomicMin(&label[e.x], b); changed = true; }
    }
  }
}
