// Elementwise a*b+c in both precisions.
__kernel void fmadd(__global const float *a, __global const float *b, __global float *c, int n) {
  int i = get_global_id_x();
  if (i < n) c[i] = a[i] * b[i] + c[i];
}
__kernel void fmadd64(__global const double *a, __global const double *b, __global double *c, int n) {
  int i = get_global_id_x();
  if (i < n) c[i] = __builtin_fma(a[i], b[i], c[i]);
}
