//! in blocks 64 u32:rand u32:rand u32:rand u32:rand u32:rand u32:rand u32:rand u32:rand
//! out digest 64 u32 u32 u32 u32 u32 u32 u32 u32
//! run sha grid 2 block 32 args blocks digest
// The rounds of SHA-256 over eight words and padding.
__constant__ unsigned K[8] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5};
__device__ unsigned rot(unsigned x, int n) { return __funnelshift_r(x, x, n); }
extern "C" __global__ void sha(const unsigned *blocks, unsigned *digest) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned w[16], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int j = 0; j < 8; j++) w[j] = __byte_perm(blocks[8 * i + j], 0, 0x0123);
  for (int j = 8; j < 16; j++) w[j] = j == 8 ? 0x80000000u : j == 15 ? 256 : 0;
  for (int r = 0; r < 64; r++) {
    unsigned x = w[r & 15], e = h[4], a = h[0];
    unsigned t1 = h[7] + (rot(e, 6) ^ rot(e, 11) ^ rot(e, 25)) + ((e & h[5]) ^ (~e & h[6])) + K[r & 7] + x;
    unsigned t2 = (rot(a, 2) ^ rot(a, 13) ^ rot(a, 22)) + ((a & h[1]) ^ (a & h[2]) ^ (h[1] & h[2]));
    unsigned s0 = w[(r + 1) & 15], s1 = w[(r + 14) & 15];
    w[r & 15] = x + (rot(s0, 7) ^ rot(s0, 18) ^ s0 >> 3) + w[(r + 9) & 15] + (rot(s1, 17) ^ rot(s1, 19) ^ s1 >> 10);
    for (int j = 7; j > 0; j--) h[j] = h[j - 1];
    h[4] += t1;
    h[0] = t1 + t2;
  }
  for (int j = 0; j < 8; j++) digest[8 * i + j] = h[j];
}
