// Elementwise arithmetic, math functions and launch bounds.
#include <math.h>
extern "C" __global__ void saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void __launch_bounds__(256, 2) mathf(float *o, const float *p) {
  int i = threadIdx.x;
  float a = p[i], b = p[i + 1];
  o[0] = sinf(a); o[1] = cosf(b); o[2] = expf(a); o[3] = logf(b); o[4] = powf(a, b); o[5] = tanhf(a); o[6] = erff(b);
  o[7] = rsqrtf(a); o[8] = cbrtf(b); o[9] = fmodf(a, b); o[10] = atan2f(a, b); o[11] = lgammaf(a); o[12] = hypotf(a, b);
  o[13] = __fdividef(a, b); o[14] = __expf(a); o[15] = __sinf(b); o[16] = __saturatef(a); o[17] = fminf(a, b) + fmaxf(a, b);
  o[18] = __fadd_rz(a, b) + __fmul_ru(a, b) + __fmaf_rd(a, b, a) + __frcp_rn(a) + __fsqrt_rz(b) + __fdiv_ru(a, b);
  o[19] = roundf(a) + floorf(b) + ceilf(a) + truncf(b) + rintf(a) + copysignf(a, b) + nextafterf(a, b) + ldexpf(a, 3);
}
extern "C" __global__ void mathd(double *o, const double *p) {
  int i = threadIdx.x;
  double a = p[i], b = p[i + 1];
  o[0] = sin(a); o[1] = exp(b); o[2] = log(a); o[3] = pow(a, b); o[4] = sqrt(a); o[5] = a / b; o[6] = fma(a, b, a);
  o[7] = __dadd_rz(a, b) + __dmul_ru(a, b) + __drcp_rd(a) + __dsqrt_rn(b) + rsqrt(a); o[8] = fmin(a, b) + fmax(a, b);
  o[9] = floor(a) + rint(b) + trunc(a) + fmod(a, b) + tgamma(a) + cbrt(b);
}
extern "C" __global__ void convert(float f, double d, long long l, unsigned char c, short s, long long *o, float *g, double *h) {
  o[0] = f; o[1] = d; o[2] = (unsigned)f; o[3] = (unsigned long long)d; o[4] = (char)f; o[5] = c; o[6] = s; o[7] = (short)l;
  o[8] = __float2int_ru(f); o[9] = __double2ll_rd(d); o[10] = __float_as_int(f); o[11] = __double_as_longlong(d); o[12] = __double2hiint(d);
  g[0] = l; g[1] = d; g[2] = c; g[3] = __int2float_rz(s); g[4] = __ull2float_ru(l); g[5] = __double2float_rd(d); g[6] = (float)(unsigned long long)l;
  h[0] = l; h[1] = f; h[2] = __hiloint2double(c, s); h[3] = (double)(unsigned long long)l; h[4] = __ll2double_rd(l);
}
