//! inout a 4096 u8:below=2
//! out b 4096 u8
//! run life grid 4,4 block 16,16 args a b s32=64
//! run life grid 4,4 block 16,16 args b a s32=64
// The game of life on a torus of bytes.
extern "C" __global__ void life(const unsigned char *in, unsigned char *out, int n) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, sum = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++)
      if (dx || dy) sum += in[(y + dy + n) % n * n + (x + dx + n) % n];
  out[y * n + x] = sum == 3 || (sum == 2 && in[y * n + x]);
}
