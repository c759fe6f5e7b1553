// Tiled matrix product in shared memory.
#define T 16
__kernel void fmmul(__global const float *a, __global const float *b, __global float *c, int n) {
  __local float ta[T][T], tb[T][T];
  int tx = __nvvm_read_ptx_sreg_tid_x(), ty = __nvvm_read_ptx_sreg_tid_y();
  int x = __nvvm_read_ptx_sreg_ctaid_x() * T + tx, y = __nvvm_read_ptx_sreg_ctaid_y() * T + ty;
  float sum = 0;
  for (int m = 0; m < n / T; m++) {
    ta[ty][tx] = a[y * n + m * T + tx];
    tb[ty][tx] = b[(m * T + ty) * n + x];
    __syncthreads();
    for (int k = 0; k < T; k++) sum += ta[ty][k] * tb[k][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}
