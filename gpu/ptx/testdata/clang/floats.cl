// Floating point arithmetic, comparison and conversion.
__kernel void floats(__global float *o, __global const float *p, __global double *d, __global int *n, __global ulong *u) {
  int i = get_global_id_x();
  float a = p[i], b = p[i + 1];
  double x = d[i], y = d[i + 1];
  o[0] = a + b; o[1] = a - b; o[2] = a * b; o[3] = a / b; o[4] = -a; o[5] = __builtin_fabsf(b);
  o[6] = __nvvm_ex2_approx_f(a); o[7] = __nvvm_lg2_approx_f(a); o[8] = __nvvm_sin_approx_f(a); o[9] = __nvvm_cos_approx_f(b);
  o[10] = __nvvm_rsqrt_approx_f(a); o[11] = __nvvm_sqrt_rn_f(a); o[12] = __nvvm_rcp_rn_f(b); o[13] = __nvvm_div_rz_f(a, b);
  o[14] = __nvvm_add_rp_f(a, b); o[15] = __nvvm_mul_rm_f(a, b); o[16] = __nvvm_fma_rz_ftz_f(a, b, a); o[17] = __nvvm_saturate_f(a);
  o[18] = __builtin_fminf(a, b); o[19] = __builtin_fmaxf(a, b); o[20] = __builtin_floorf(a) + __builtin_ceilf(b) + __builtin_truncf(a) + __builtin_rintf(b);
  o[21] = (float)x; o[22] = (float)n[0]; o[23] = (float)u[0]; o[24] = a != a ? 1.5f : b;
  d[2] = x + y; d[3] = x * y; d[4] = x / y; d[5] = __nvvm_sqrt_rn_d(x); d[6] = a; d[7] = (double)u[1]; d[8] = x < y ? x : y;
  d[9] = x - y; d[10] = __builtin_copysign(x, y); d[11] = 1e300;
  n[1] = (int)a; n[2] = (uint)b; n[3] = (short)x; n[4] = a < b && !(a >= x); n[5] = __nvvm_f2i_rn(a); n[6] = __nvvm_d2i_hi(x);
  u[2] = (ulong)x; u[3] = (ulong)(long)a; u[4] = __nvvm_bitcast_d2ll(y);
}
