//! inout data 1024 s32:rand
//! run sort grid 1 block 32 args data s32=32
// Each thread sorts its part by recursion.
__device__ __noinline__ void quick(int *a, int lo, int hi) {
  if (lo >= hi) return;
  int p = a[(lo + hi) / 2], i = lo, j = hi;
  while (i <= j) {
    while (a[i] < p) i++;
    while (a[j] > p) j--;
    if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; }
  }
  quick(a, lo, j);
  quick(a, i, hi);
}
extern "C" __global__ void sort(int *data, int n) { quick(data + threadIdx.x * n, 0, n - 1); }
