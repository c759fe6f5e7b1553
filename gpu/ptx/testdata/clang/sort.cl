// Bitonic sort of one block and an exclusive scan.
__kernel void bitonic(__global uint *v) {
  __local uint s[512];
  uint t = __nvvm_read_ptx_sreg_tid_x();
  s[t] = v[t]; s[t + 256] = v[t + 256];
  for (uint k = 2; k <= 512; k <<= 1)
    for (uint j = k >> 1; j > 0; j >>= 1) {
      __syncthreads();
      uint i = 2 * t - (t & (j - 1));
      int up = (i & k) == 0;
      uint a = s[i], b = s[i + j];
      if ((a > b) == up) { s[i] = b; s[i + j] = a; }
    }
  __syncthreads();
  v[t] = s[t]; v[t + 256] = s[t + 256];
}
__kernel void scan(__global int *v, int n) {
  __local int s[2][256];
  int t = __nvvm_read_ptx_sreg_tid_x(), cur = 0;
  s[0][t] = t > 0 ? v[t - 1] : 0;
  for (int d = 1; d < n; d <<= 1) {
    __syncthreads();
    cur ^= 1;
    s[cur][t] = s[cur ^ 1][t] + (t >= d ? s[cur ^ 1][t - d] : 0);
  }
  v[t] = s[cur][t];
}
