//! in in 1024 u8:rand u8:rand u8:rand u8:rand
//! out out 1024 u8 u8 u8 u8
//! run sobel grid 2,2 block 16,16 args in out s32=32
// Edges in an image of four bytes a pixel.
__device__ int grey(uchar4 p) { return (p.x * 77 + p.y * 151 + p.z * 28) >> 8; }
extern "C" __global__ void sobel(const uchar4 *in, uchar4 *out, int n) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, g[3][3];
  for (int j = 0; j < 3; j++)
    for (int i = 0; i < 3; i++) g[j][i] = grey(in[min(max(y + j - 1, 0), n - 1) * n + min(max(x + i - 1, 0), n - 1)]);
  int h = g[0][2] + 2 * g[1][2] + g[2][2] - g[0][0] - 2 * g[1][0] - g[2][0];
  int v = g[2][0] + 2 * g[2][1] + g[2][2] - g[0][0] - 2 * g[0][1] - g[0][2];
  unsigned char e = min(abs(h) + abs(v), 255);
  out[y * n + x] = make_uchar4(e, e, 255 - e, in[y * n + x].w);
}
