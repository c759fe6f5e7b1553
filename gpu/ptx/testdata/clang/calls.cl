// Calls with values, structures and recursion.
typedef struct { int x; double d; char c[5]; } rec;
__attribute__((noinline)) int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b) + 0 * b; }
__attribute__((noinline)) float4 scale(float4 v, float f) { return v * f + 1.0f; }
__attribute__((noinline)) rec change(rec r, int i) { r.c[i & 3] = r.x; r.d *= 2; return r; }
__attribute__((noinline)) void store(__global int *p, short v) { *p = v; }
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__kernel void calls(__global int *o, __global float4 *f, __global rec *r, rec byval, char ch) {
  int i = get_global_id_x();
  o[i] = gcd(o[i], o[i + 1]) + fib(o[i] & 7) + ch;
  f[i] = scale(f[i], byval.d);
  r[i] = change(byval, i);
  store(o + 100, o[3]);
}
int printf(__constant const char *, ...);
