// State spaces, vectors, tables and local arrays.
__constant int table[4] = {1, -2, 3, 0x7fffffff};
__constant float weights[2][3] = {{0.5f, 1.0f, -0.25f}, {1e-3f, 2, 3}};
__constant char text[] = "constant text";
__constant struct { __constant int *p; short s; __constant char *t; } links[2] = {{&table[2], 3, text + 4}, {table, -1, text}};
__kernel void memory(__global float4 *v, __global int2 *w, __global char *c, __global double2 *d, __local int *dyn, int k) {
  __local volatile int sh[64];
  int i = __nvvm_read_ptx_sreg_tid_x();
  int priv[16];
  for (int j = 0; j < 16; j++) priv[j] = table[j & 3] * j;
  float4 a = v[i];
  v[i] = a.wzyx * weights[i & 1][k % 3];
  int2 b = w[i];
  w[i] = b.yx + priv[k & 15] + *links[i & 1].p;
  c[i] = text[i % 13] + links[k & 1].t[1];
  d[i] = d[i] + 0.1;
  sh[i] = k;
  dyn[i] = k + 1;
  __syncthreads();
  w[i + 1] = (int2)(sh[63 - i], dyn[i ^ 1]);
}
