// Atomic operations on global and shared memory.
#define generic_u(p) ((volatile __private uint *)(ulong)(p))
__kernel void atomics(__global int *g, __global uint *u, __global float *f, __global long *l) {
  __local int s[4];
  int i = __nvvm_read_ptx_sreg_tid_x();
  s[i & 3] = 0;
  __syncthreads();
  __sync_fetch_and_add(&s[i & 3], i);
  __sync_fetch_and_or(&g[0], i); __sync_fetch_and_and(&g[1], i); __sync_fetch_and_xor(&g[2], i);
  g[3] = __sync_val_compare_and_swap(&g[4], i, 7);
  g[5] = __sync_lock_test_and_set(&g[6], i);
  __sync_fetch_and_min(&g[7], i); __sync_fetch_and_umax(&u[0], i);
  u[1] = __nvvm_atom_inc_gen_ui(generic_u(&u[2]), 9); u[3] = __nvvm_atom_dec_gen_ui(generic_u(&u[4]), 9);
  __nvvm_atom_add_gen_f((volatile __private float *)(ulong)f, 1.5f);
  __sync_fetch_and_add(&l[0], i); l[1] = __sync_val_compare_and_swap(&l[2], i, 7);
  __nvvm_membar_gl(); __nvvm_membar_cta(); __nvvm_membar_sys();
  __syncthreads();
  g[10] = s[0];
}
