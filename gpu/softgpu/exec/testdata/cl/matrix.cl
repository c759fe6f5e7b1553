#include "ids.h"

__kernel void fmmul(__global const float *a, __global const float *b, __global float *c, int n) {
  int row = gy, col = gx;
  if (row >= n || col >= n) return;
  float s = 0;
  for (int k = 0; k < n; k++) s += a[row * n + k] * b[k * n + col];
  c[row * n + col] = s;
}

__kernel void mmul(__global const int *a, __global const int *b, __global int *c, int n) {
  int row = gy, col = gx;
  if (row >= n || col >= n) return;
  int s = 0;
  for (int k = 0; k < n; k++) s += a[row * n + k] * b[k * n + col];
  c[row * n + col] = s;
}

#define TILE 16
__kernel void fmmul_tiled(__global const float *a, __global const float *b, __global float *c, int n) {
  __local float as[TILE][TILE], bs[TILE][TILE];
  float s = 0;
  for (int t = 0; t < n / TILE; t++) {
    as[ty][tx] = a[gy * n + t * TILE + tx];
    bs[ty][tx] = b[(t * TILE + ty) * n + gx];
    sync();
    for (int k = 0; k < TILE; k++) s += as[ty][k] * bs[k][tx];
    sync();
  }
  c[gy * n + gx] = s;
}

__kernel void madd(__global const int *a, __global const int *b, __global int *c, int n) {
  int i = gy * n + gx;
  c[i] = a[i] + b[i];
}
