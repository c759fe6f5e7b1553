//! in start 129 u32:iota
//! in col 2048 u32:below=128
//! in val 2048 f64:range=-1,1
//! in x 128 f64:range=-1,1
//! out y 128 f64
//! run spmv grid 4 block 1024 args start col val x y s32=128
// Sparse matrix times vector in double precision, a warp a row; row i has i % 16 entries.
extern "C" __global__ void spmv(const unsigned *start, const unsigned *col, const double *val, const double *x, double *y, int n) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= n) return;
  double s = 0;
  for (unsigned k = start[row] * 15 + lane; k < start[row] * 15 + row % 16 * 2; k += 32) s = fma(val[k], x[col[k]], s);
  for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffff, s, d);
  if (lane == 0) y[row] = s;
}
