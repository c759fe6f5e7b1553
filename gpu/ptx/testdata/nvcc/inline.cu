// Inline assembly as libraries write it.
extern "C" __global__ void special(unsigned *o, unsigned long long *l, const float *g, float *f) {
  __shared__ int s[4];
  unsigned v; unsigned long long w; float x, y, z, q;
#define R(n, r) asm volatile("mov.u32 %0, %%" r ";" : "=r"(v)); o[n] = v;
  R(0, "laneid") R(1, "warpid") R(2, "nwarpid") R(3, "smid") R(4, "nsmid") R(5, "lanemask_eq") R(6, "lanemask_le") R(7, "lanemask_lt")
  R(8, "lanemask_ge") R(9, "lanemask_gt") R(10, "clock") R(11, "globaltimer_lo") R(12, "dynamic_smem_size") R(13, "total_smem_size") R(14, "tid.z")
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(w)); l[0] = w;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(w)); l[1] = w;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(q) : "l"(g)); f[0] = x + y + z + q;
  asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" :: "l"(f + 2), "f"(x), "f"(y) : "memory");
  asm volatile("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(v) : "l"(s)); o[15] = v;
  asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(v) : "r"(v)); o[16] = v;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p mov.u32 %0, 1; @!p mov.u32 %0, 2; }" : "=r"(v) : "r"(v)); o[17] = v;
  asm volatile("{ .reg .pred P1; LAB_WAIT: setp.eq.u32 P1, %0, 3; @P1 bra DONE; bra.uni DONE; DONE: }" :: "r"(v));
  asm volatile("{ .reg .pred P1; LAB_WAIT: setp.eq.u32 P1, %0, 4; @P1 bra DONE; bra.uni DONE; DONE: }" :: "r"(v));
  asm volatile("prmt.b32.b4e %0, %1, %2, %3;" : "=r"(v) : "r"(v), "r"(1), "r"(2)); o[18] = v;
  asm volatile("bfe.u32 %0, %1, 3, 5; bfi.b32 %0, %0, %1, 8, 4; bfind.shiftamt.s32 %0, %0; lop3.b32 %0, %0, %1, 7, 0x96;" : "+r"(v) : "r"(o[3])); o[19] = v;
  asm volatile("bar.sync 1, 64; bar.arrive 2, 64; barrier.sync 3; membar.cta; pmevent 1;" ::: "memory");
#if __CUDA_ARCH__ >= 700
  asm volatile("fence.acq_rel.gpu; fence.sc.sys;" ::: "memory");
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(o) : "memory"); o[20] = v;
  asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(o + 21), "r"(v) : "memory");
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(o + 22), "r"(v) : "memory");
  asm volatile("atom.acq_rel.cta.global.cas.b32 %0, [%1], 1, 2;" : "=r"(v) : "l"(o + 23) : "memory");
#endif
  asm volatile("prefetch.global.L2 [%0];" :: "l"(g));
  asm volatile("ex2.approx.ftz.f32 %0, %1; lg2.approx.f32 %0, %0;" : "=f"(x) : "f"(y)); f[5] = x;
}
