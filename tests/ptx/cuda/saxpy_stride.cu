//! in x 3000 f64:range=-1,1
//! inout y 3000 f64:range=-9,9
//! run axpy grid 3 block 128 args s32=3000 f64=1.000000119 x y
// y = a x + y with a loop over the grid, in double precision.
extern "C" __global__ void axpy(int n, double a, const double *x, double *y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
