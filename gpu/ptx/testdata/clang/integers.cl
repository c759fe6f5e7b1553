// Integer arithmetic of all widths.
__kernel void integers(__global long *o, __global const long *p, __global short *s, __global uchar *c) {
  int i = get_global_id_x();
  long a = p[i], b = p[i + 1];
  ulong ua = a, ub = b;
  o[0] = a + b; o[1] = a - b; o[2] = a * b; o[3] = a / (b | 1); o[4] = ua % (ub | 1);
  o[5] = a << (b & 63); o[6] = a >> (b & 63); o[7] = ua >> (ub & 63);
  o[8] = (a ^ b) & ~(a | b); o[9] = a < b ? a : b; o[10] = ua > ub ? ua : ub;
  o[11] = __builtin_popcountl(a) + __builtin_clzl(a | 1) + __builtin_ctzl(b | 1);
  o[12] = (long)(int)a * (int)b; o[13] = (ulong)(uint)a * (uint)b;
  o[14] = __nvvm_mulhi_ll(a, b) + __nvvm_mulhi_ull(a, b) + __nvvm_mulhi_i((int)a, (int)b);
  o[15] = __nvvm_mul24_i((int)a, (int)b) + __nvvm_sad_i((int)a, (int)b, 3) + __nvvm_prmt((uint)a, (uint)b, 0x3210);
  o[16] = a == 0 ? -a : __builtin_bswap64(b);
  s[i] = (short)(s[i] * s[i + 1] + (short)a); s[i + 2] = s[i] / (s[i + 3] | 1);
  c[i] = (uchar)(c[i] + c[i + 1]) >> 1; c[i + 2] = c[i] % (uchar)(c[i + 3] | 1);
  o[17] = (uint)a << 7 | (uint)a >> 25;
  o[18] = __builtin_bitreverse64(a) + __builtin_bitreverse32((uint)b);
}
