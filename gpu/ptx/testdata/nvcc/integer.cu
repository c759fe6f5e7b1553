// Integer intrinsics, 128-bit arithmetic and carries.
extern "C" __global__ void integer(unsigned *o, const unsigned *p, long long *l, short *s, unsigned char *c) {
  unsigned a = p[0], b = p[1];
  int x = a, y = b;
  o[0] = __popc(a); o[1] = __clz(b); o[2] = __brev(a); o[3] = __ffs(b); o[4] = __byte_perm(a, b, 0x4321); o[5] = __umulhi(a, b);
  o[6] = __mulhi(x, y); o[7] = __umul24(a, b); o[8] = __mul24(x, y); o[9] = __sad(x, y, a); o[10] = __usad(a, b, a);
  o[11] = __funnelshift_l(a, b, x); o[12] = __funnelshift_rc(a, b, x); o[13] = __hadd(x, y); o[14] = __urhadd(a, b);
  o[15] = min(x, y) + max(a, b) + abs(x); o[16] = a / b + x % y; o[17] = (a & b) | (~a ^ b); o[18] = a >> (b & 31) | a << 3;
  o[19] = __fns(a, 0, 3); o[20] = (a >> 5 & 63) + (x << 20 >> 27);
  l[0] = l[1] * l[2]; l[3] = l[1] / l[2]; l[4] = (unsigned long long)l[1] % l[2]; l[5] = __mul64hi(l[1], l[2]); l[6] = __umul64hi(l[1], l[2]);
  l[7] = __popcll(l[1]) + __clzll(l[2]) + __ffsll(l[1]); l[8] = __brevll(l[1]); l[9] = l[1] >> l[2]; l[10] = llabs(l[1]);
  l[11] = (long long)x * y; l[12] = (unsigned long long)a * b + l[1];
  __int128 w = (__int128)l[1] * l[2] + l[3]; l[13] = w >> 64; l[14] = (unsigned __int128)w / 10;
  s[0] = s[1] * s[2] + s[3]; s[4] = s[5] / s[6]; s[7] = max(s[8], s[9]); c[0] = c[1] + c[2] * c[3]; c[4] = c[5] >> 2;
#if __CUDA_ARCH__ >= 610
  o[22] = __dp4a(a, b, a); o[23] = __dp4a(x, y, x); o[24] = __dp2a_lo(x, y, x); o[25] = __dp2a_hi(a, b, a);
#endif
}
extern "C" __global__ void carries(unsigned *o, const unsigned *a, const unsigned *b) {
  asm("{\n\tadd.cc.u32 %0, %4, %8;\n\taddc.cc.u32 %1, %5, %9;\n\taddc.cc.u32 %2, %6, %10;\n\taddc.u32 %3, %7, %11;\n\t}"
      : "=r"(o[0]), "=r"(o[1]), "=r"(o[2]), "=r"(o[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
  asm volatile("{\n\t.reg .u32 t;\n\tmad.lo.cc.u32 t, %2, %3, %4;\n\tmadc.hi.u32 %0, %2, %3, 0;\n\tsub.cc.u32 %1, t, %4;\n\tsubc.u32 %0, %0, 0;\n\t}"
      : "+r"(o[4]), "=r"(o[5]) : "r"(a[0]), "r"(b[0]), "r"(a[1]));
}
