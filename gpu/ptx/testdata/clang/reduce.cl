// Sums with shuffles, shared memory and atomics.
__kernel void reduce(__global const int *in, __global int *out, uint n) {
  __local int part[32];
  uint t = __nvvm_read_ptx_sreg_tid_x();
  int v = 0;
  for (uint i = get_global_id_x(); i < n; i += __nvvm_read_ptx_sreg_ntid_x() * __nvvm_read_ptx_sreg_nctaid_x()) v += in[i];
  for (int d = 16; d > 0; d >>= 1) v += __nvvm_shfl_sync_down_i32(0xffffffffu, v, d, 31);
  if ((t & 31) == 0) part[t >> 5] = v;
  __syncthreads();
  if (t < 32) {
    v = part[t];
    for (int d = 16; d > 0; d >>= 1) v += __nvvm_shfl_sync_bfly_i32(0xffffffffu, v, d, 31);
    if (t == 0) __nvvm_atom_add_gen_i((volatile __private int *)(ulong)out, v);
  }
}
__kernel void counts(__global const uint *in, __global uint *out, uint n) {
  uint i = get_global_id_x();
  uint x = i < n ? in[i] : 0;
  uint b = __nvvm_vote_ballot_sync(0xffffffffu, x & 1);
  if (__nvvm_vote_all_sync(0xffffffffu, x > 3)) out[i] = __builtin_popcount(b);
  else out[i] = __builtin_clz(b | 1) + __nvvm_match_any_sync_i32(0xffffffffu, x);
}
