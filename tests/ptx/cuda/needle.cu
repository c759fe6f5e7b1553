//! in a 64 u8:below=4
//! in b 64 u8:below=4
//! out score 4225 s32
//! run needle grid 1 block 64 args a b score s32=64
// Needleman-Wunsch alignment, diagonal by diagonal.
extern "C" __global__ void needle(const unsigned char *a, const unsigned char *b, int *score, int n) {
  int w = n + 1, t = threadIdx.x + 1;
  score[t] = -2 * t;
  score[t * w] = -2 * t;
  if (t == 1) score[0] = 0;
  __syncthreads();
  for (int d = 2; d <= 2 * n; d++) {
    int x = d - t;
    if (x >= 1 && x <= n) {
      int m = score[(t - 1) * w + x - 1] + (a[t - 1] == b[x - 1] ? 3 : -1);
      score[t * w + x] = max(m, max(score[(t - 1) * w + x], score[t * w + x - 1]) - 2);
    }
    __syncthreads();
  }
}
