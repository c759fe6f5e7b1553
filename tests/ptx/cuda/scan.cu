//! in in 1024 s32:range=-50,1000
//! out out 1024 s32
//! out sums 4 s32
//! run scan grid 4 block 128 args in out sums
//! run addSums grid 4 block 256 args out sums
// Exclusive prefix sum of 256 numbers a block, up and down a tree, then of the blocks.
extern "C" __global__ void scan(const int *in, int *out, int *sums) {
  __shared__ int t[256];
  int i = threadIdx.x, base = blockIdx.x * 256, offset = 1;
  t[2 * i] = in[base + 2 * i];
  t[2 * i + 1] = in[base + 2 * i + 1];
  for (int d = 128; d > 0; d >>= 1, offset *= 2) {
    __syncthreads();
    if (i < d) t[offset * (2 * i + 2) - 1] += t[offset * (2 * i + 1) - 1];
  }
  if (i == 0) { sums[blockIdx.x] = t[255]; t[255] = 0; }
  for (int d = 1; d < 256; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (i < d) {
      int a = offset * (2 * i + 1) - 1, b = offset * (2 * i + 2) - 1, x = t[a];
      t[a] = t[b];
      t[b] += x;
    }
  }
  __syncthreads();
  out[base + 2 * i] = t[2 * i];
  out[base + 2 * i + 1] = t[2 * i + 1];
}
extern "C" __global__ void addSums(int *out, const int *sums) {
  int s = 0;
  for (int b = 0; b < blockIdx.x; b++) s += sums[b];
  out[blockIdx.x * 256 + threadIdx.x] += s;
}
