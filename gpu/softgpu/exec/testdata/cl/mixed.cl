#include "ids.h"

// Divergence: each thread follows its own path.
__kernel void collatz(__global const int *in, __global int *out, int n) {
  int i = gx;
  if (i >= n) return;
  long x = in[i];
  int steps = 0;
  while (x != 1) {
    if (x & 1) x = 3 * x + 1; else x /= 2;
    steps++;
  }
  out[i] = steps;
}

// A reduction in shared memory.
__kernel void reduce(__global const float *in, __global float *out, __local float *tmp) {
  tmp[tx] = in[gx];
  for (int s = nx / 2; s > 0; s >>= 1) {
    sync();
    if (tx < s) tmp[tx] += tmp[tx + s];
  }
  if (tx == 0) out[bx] = tmp[0];
}

// Calls that are not inlined, with recursion.
__attribute__((noinline)) int ack(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ack(m - 1, 1);
  return ack(m - 1, ack(m, n - 1));
}

__kernel void ackermann(__global int *out) { out[gx] = ack(tx % 3, tx % 5); }

typedef struct { int a; long b; short c; char d; } rec;

__attribute__((noinline)) rec mix(rec x, uchar k) {
  x.a += k; x.b *= k; x.c -= k; x.d ^= k;
  return x;
}

__kernel void structs(__global rec *r) {
  r[gx] = mix(r[gx], (uchar)(gx * 7));
}

// Arrays of a thread, with indexes known only at run time.
__kernel void sort(__global int *data, int n) {
  int a[16];
  for (int i = 0; i < 16; i++) a[i] = data[gx * 16 + i];
  for (int i = 1; i < n; i++) {
    int x = a[i], j = i;
    for (; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1];
    a[j] = x;
  }
  for (int i = 0; i < 16; i++) data[gx * 16 + i] = a[i];
}

__kernel void histogram(__global const uchar *in, __global int *bins, int n) {
  __local int local_bins[256];
  for (int i = tx; i < 256; i += nx) local_bins[i] = 0;
  sync();
  for (int i = gx; i < n; i += nx * __nvvm_read_ptx_sreg_nctaid_x())
    __sync_fetch_and_add(&local_bins[in[i]], 1);
  sync();
  for (int i = tx; i < 256; i += nx) __sync_fetch_and_add(&bins[i], local_bins[i]);
}

__constant int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};

__kernel void types(__global const int *in, __global long *out) {
  int x = in[gx];
  uint u = x;
  short s = x;
  uchar c = x;
  double d = x;
  float f = x;
  long r = table[x & 7];
  r += x / 7 + x % 7 + u / 5u + u % 5u + s / 3 + c % 11;
  r ^= (long)x * x;
  r += (long)(d * 0.5) - (long)(f / 3.0f);
  r = r * 31 + (x << 3) + (x >> 2) + (u >> 5);
  r += (x > 3 && s < 100) ? (long)(x < 50 ? x : 50) : (long)(x > -50 ? x : -50);
  r += __builtin_popcount(u) + (u ? __builtin_clz(u) : 0);
  out[gx] = r + (r / 12345) - (r % 77);
}

__kernel void vectors(__global const float4 *in, __global float4 *out, __global const int2 *idx) {
  int2 k = idx[gx];
  out[gx] = in[k.x] * in[k.y] + (float4)(1, 2, 3, 4);
}
