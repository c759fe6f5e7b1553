// Special registers, barriers with predicates, traps.
__kernel void specials(__global uint *o, __global ulong *t) {
  o[0] = __nvvm_read_ptx_sreg_laneid(); o[1] = __nvvm_read_ptx_sreg_warpid(); o[2] = __nvvm_read_ptx_sreg_nwarpid();
  o[3] = __nvvm_read_ptx_sreg_smid(); o[4] = __nvvm_read_ptx_sreg_nsmid(); o[5] = __nvvm_read_ptx_sreg_gridid();
  o[6] = __nvvm_read_ptx_sreg_lanemask_lt(); o[7] = __nvvm_read_ptx_sreg_lanemask_ge(); o[8] = __nvvm_read_ptx_sreg_clock();
  o[9] = __nvvm_read_ptx_sreg_tid_z() + __nvvm_read_ptx_sreg_nctaid_z() + __nvvm_read_ptx_sreg_ctaid_z();
  t[0] = __nvvm_read_ptx_sreg_clock64();
  o[10] = __nvvm_bar0_popc(o[0]); o[11] = __nvvm_bar0_and(o[1]); o[12] = __nvvm_bar0_or(o[2]);
  __nvvm_bar_sync(3); __nvvm_bar_warp_sync(0xffu); __nvvm_barrier_sync(1); __nvvm_barrier_sync_cnt(2, 64);
  o[13] = __nvvm_read_ptx_sreg_pm0();
  o[14] = __nvvm_fns(o[1], 0, 3);
  if (o[0] == 99) __builtin_trap();
}
