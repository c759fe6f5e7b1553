// Half precision and bfloat16.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void halves(__half *o, const __half *p, __half2 *q, float *f, int *n) {
  __half a = p[0], b = p[1];
  o[0] = __hadd(a, b); o[1] = __hsub(a, b); o[2] = __hmul(a, b); o[3] = __hfma(a, b, a); o[4] = __hdiv(a, b); o[5] = __hneg(a); o[6] = __habs(b);
  o[7] = hsqrt(a); o[8] = hexp(b); o[9] = hsin(a); o[10] = __float2half(f[0]); o[11] = __int2half_rn(n[0]); o[12] = __hadd_sat(a, b); o[13] = __hmin(a, b);
  o[14] = __hmax_nan(a, b); o[15] = hrint(a); o[16] = hfloor(b); o[17] = __ushort_as_half(7); o[18] = hlog2(a); o[19] = hrcp(b);
  q[0] = __hfma2(q[1], q[2], q[3]); q[4] = __hadd2(q[5], q[6]); q[7] = __halves2half2(a, b); q[8] = __floats2half2_rn(f[1], f[2]); q[9] = __hmul2_sat(q[1], q[2]);
  q[10] = __hgt2(q[1], q[2]); q[11] = h2exp2(q[3]); q[12] = __hneg2(q[4]); q[13] = __lowhigh2highlow(q[5]); q[14] = __hmin2(q[1], q[2]);
  f[3] = __half2float(a); n[1] = __half2int_rz(a); n[2] = __hlt(a, b); n[3] = __hbeq2(q[1], q[2]); n[4] = __hisnan(a); n[5] = __half2ushort_rd(b);
  f[4] = __low2float(q[1]) + __high2float(q[2]); n[6] = __hgtu(a, b);
}
extern "C" __global__ void brains(__nv_bfloat16 *o, const __nv_bfloat16 *p, __nv_bfloat162 *q, float *f, int *n) {
  __nv_bfloat16 a = p[0], b = p[1];
  o[0] = __hadd(a, b); o[1] = __hsub(a, b); o[2] = __hmul(a, b); o[3] = __hfma(a, b, a); o[4] = __hdiv(a, b); o[5] = __hneg(a); o[6] = __habs(b);
  o[7] = hsqrt(a); o[8] = hexp(b); o[9] = __float2bfloat16(f[0]); o[10] = __int2bfloat16_rn(n[0]); o[11] = __hmin(a, b); o[12] = __hmax_nan(a, b);
  q[0] = __hfma2(q[1], q[2], q[3]); q[4] = __hadd2(q[5], q[6]); q[7] = __floats2bfloat162_rn(f[1], f[2]); q[8] = __hmax2(q[1], q[2]); q[9] = __hgt2(q[1], q[2]);
  f[3] = __bfloat162float(a); n[1] = __bfloat162int_rz(a); n[2] = __hlt(a, b); n[3] = __hne(a, b);
}
extern "C" __global__ void halfatomics(__half2 *h, __nv_bfloat16 *b) {
#if __CUDA_ARCH__ >= 700
  atomicAdd(h, h[1]); atomicAdd((__half *)h, __float2half(1));
#endif
#if __CUDA_ARCH__ >= 900
  atomicAdd(b, b[1]);
#endif
}
