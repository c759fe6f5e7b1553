// Kernels that clang compiles (see Makefile).
#define GID (__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x())
#define BARRIER() __syncthreads()

__kernel void collatz(__global int *out) {
  int i = GID, n = 0;
  long x = i + 1;
  while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; n++; }
  out[i] = n;
}
__kernel void crc(__global const uchar *data, __global uint *out, int n) {
  uint c = ~0u;
  for (int i = 0; i < n; i++) {
    c ^= data[GID * n + i];
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
  }
  out[GID] = ~c;
}
static int place(uint all, uint cols, uint left, uint right) {
  if (cols == all) return 1;
  int n = 0;
  for (uint free = all & ~(cols | left | right); free; ) {
    uint bit = free & -free;
    free ^= bit;
    n += place(all, cols | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return n;
}
__kernel void queens(__global int *out) {
  int i = GID;
  out[i] = i < 8 ? place(255, 1u << i, 2u << i, (1u << i) >> 1) : place(63, 0, 0, 0);
}
struct record { int a; short b; char c; double d; float4 v; };
__kernel void records(__global struct record *r) {
  struct record x = r[GID];
  x.a += x.b * x.c;
  x.d = x.d * x.d + x.a;
  x.v = x.v.wzyx * 2.0f + (float4)(x.d > 10 ? 1.0f : 0.5f);
  x.b = (short)(x.a >> 3);
  r[GID] = x;
}
__kernel void floatmix(__global const float *x, __global const float *y, __global float *o) {
  int i = GID;
  float a = x[i], b = y[i];
  o[4 * i] = a / b;
  o[4 * i + 1] = __builtin_fminf(a, b) - __builtin_fmaxf(a, b) * __builtin_fabsf(b);
  o[4 * i + 2] = a < b ? __builtin_floorf(a) : __builtin_ceilf(b);
  o[4 * i + 3] = (float)(int)a + (float)(uint)b + (float)(double)(a * b);
}
__kernel void blocksort(__global int *data) {
  __local int s[128];
  int t = __nvvm_read_ptx_sreg_tid_x();
  s[t] = data[GID];
  for (int phase = 0; phase < 128; phase++) {
    BARRIER();
    int i = 2 * (t & 63) + (phase & 1);
    if (t < 64 && i + 1 < 128 && s[i] > s[i + 1]) { int x = s[i]; s[i] = s[i + 1]; s[i + 1] = x; }
  }
  BARRIER();
  data[GID] = s[t];
}
