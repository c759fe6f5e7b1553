//! in wall 5120 s32:below=10
//! out result 256 s32
//! run pathfinder grid 2 block 256 args wall result s32=256 s32=20
// Cheapest paths through a grid by rows, with a border of cells that blocks compute twice.
extern "C" __global__ void pathfinder(const int *wall, int *result, int cols, int rows) {
  __shared__ int prev[256], next[256];
  const int border = 64;
  int t = threadIdx.x, x = (int)blockIdx.x * (256 - 2 * border) - border + t;
  bool inside = x >= 0 && x < cols;
  if (inside) prev[t] = wall[x];
  __syncthreads();
  for (int r = 1; r < rows; r++) {
    if (inside && t > 0 && t < 255) {
      int best = prev[t];
      if (x > 0) best = min(best, prev[t - 1]);
      if (x < cols - 1) best = min(best, prev[t + 1]);
      next[t] = best + wall[r * cols + x];
    } else if (inside) next[t] = prev[t];
    __syncthreads();
    prev[t] = next[t];
    __syncthreads();
  }
  if (inside && t >= border && t < 256 - border) result[x] = prev[t];
}
