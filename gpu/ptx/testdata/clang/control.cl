// Loops, switches and early returns.
__kernel void control(__global int *o, __global const int *p, int n) {
  int i = get_global_id_x();
  if (i >= n) return;
  int v = p[i];
  switch (v) {
  case 0: v = 17; break;
  case 1: v = p[i + 1] * 3; break;
  case 2: v = p[i + 2] ^ 5; break;
  case 3: v += p[i + 3]; break;
  case 4: v -= i; break;
  case 5: v <<= i & 7; break;
  case 6: v /= i | 1; break;
  case 7: for (int k = 0; k < i; k++) v = v * 31 + p[k]; break;
  default: while (v > 100) { if (v & 1) v = v / 3 - 1; else { v >>= 1; if (v == 77) goto out; } }
  }
out:
  o[i] = v;
}
