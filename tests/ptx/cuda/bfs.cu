//! in edges 2048 s32:below=512
//! inout cost 512 s32:fill=0xffffffff
//! out changed 6 s32
//! run start grid 1 block 32 args cost changed
//! run bfs grid 4 block 128 args edges cost changed s32=0
//! run bfs grid 4 block 128 args edges cost changed s32=1
//! run bfs grid 4 block 128 args edges cost changed s32=2
//! run bfs grid 4 block 128 args edges cost changed s32=3
//! run bfs grid 4 block 128 args edges cost changed s32=4
// Breadth-first search by level in a graph with four edges a node.
extern "C" __global__ void start(int *cost, int *changed) {
  if (threadIdx.x == 0) cost[7] = 0;
  if (threadIdx.x < 6) changed[threadIdx.x] = 0;
}
extern "C" __global__ void bfs(const int *edges, int *cost, int *changed, int level) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (cost[i] != level) return;
  for (int e = 0; e < 4; e++)
    if (atomicCAS(&cost[edges[4 * i + e]], -1, level + 1) == -1) atomicAdd(&changed[level], 1);
}
