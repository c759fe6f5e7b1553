//! in keys 400 u32:below=4096
//! inout nodes 1365 s32:zero s32:zero s32:zero
//! out found 400 s32
//! run build grid 1 block 1024 args nodes s32=1365
//! run search grid 2 block 256 args keys nodes found s32=400
// Search in a tree with four children a node.
extern "C" __global__ void build(int3 *nodes, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int first = 0, width = 1, span = 4096;
    while (i >= first + width) { first += width; width *= 4; span /= 4; }
    int base = (i - first) * span;
    nodes[i] = make_int3(base + span / 4, base + span / 2, base + span / 4 * 3);
  }
}
extern "C" __global__ void search(const unsigned *keys, const int3 *nodes, int *found, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int key = keys[i], at = 0, depth = 0;
  while (depth < 6) {
    int3 v = nodes[at];
    at = 4 * at + 1 + (key >= v.x) + (key >= v.y) + (key >= v.z);
    depth++;
  }
  found[i] = at - 1365;
}
