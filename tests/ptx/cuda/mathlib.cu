//! in x 512 f32:range=-20,20
//! in y 512 f64:range=-20,20
//! out f 512 f32~ulp=4|abs=2^-20 f32~ulp=4|abs=2^-20 f32~ulp=16 f32~ulp=8 f32~ulp=4
//! out d 512 f64~ulp=2 f64~ulp=2 f64~ulp=2
//! run mathlib grid 4 block 128 args x y f d
// The library's functions: range reduction with a slow path, exponentials, roots.
extern "C" __global__ void mathlib(const float *x, const double *y, float *f, double *d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i], big = i % 7 == 0 ? v * 1e7f : v;
  f[5 * i] = sinf(big);
  f[5 * i + 1] = cosf(big);
  f[5 * i + 2] = powf(fabsf(v), 1.7f);
  f[5 * i + 3] = tanhf(v * 0.1f);
  f[5 * i + 4] = cbrtf(v);
  d[3 * i] = exp(y[i]);
  d[3 * i + 1] = log(fabs(y[i]) + 1e-3);
  d[3 * i + 2] = sin(y[i]) / sqrt(fabs(y[i]));
}
