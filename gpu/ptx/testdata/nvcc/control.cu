// Calls, recursion, function pointers, virtual functions, switches, printf, assert, alloca, new.
#include <stdio.h>
#include <assert.h>
struct shape { __device__ virtual float area() const = 0; __device__ virtual ~shape() {} };
struct square : shape { float s; __device__ square(float s) : s(s) {} __device__ float area() const { return s * s; } };
struct circle : shape { float r; __device__ circle(float r) : r(r) {} __device__ float area() const { return r * r * 3.14f; } };
struct big { int v[9]; double d; char c[3]; };
typedef int (*op)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int mul(int a, int b) { return a * b; }
__device__ op ops[2] = {add, mul};
__device__ __noinline__ big change(big b, int i) { b.v[i] = 3; b.c[1] = i; return b; }
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ __noinline__ void report(const char *what, float v, int i) { printf("%s %f %d\n", what, v, i); }
extern "C" __global__ void control(float *f, int *o, big b, int k) {
  shape *s = k & 1 ? (shape *)new square(f[0]) : (shape *)new circle(f[1]);
  f[2] = s->area();
  delete s;
  o[0] = ops[k & 1](o[1], o[2]) + ackermann(2, k);
  big c = change(b, k);
  o[3] = c.v[k] + c.c[1] + (int)c.d;
  switch (k) {
  case 0: o[4] = 5; break;
  case 1: o[4] = o[7] * 3; break;
  case 2: o[5] = o[8] - 1; break;
  case 3: o[6] = o[9] ^ 77; break;
  case 4: o[4] = o[5] / 3; break;
  case 5: o[4] ^= 12; break;
  case 6: report("six", f[3], k); break;
  case 9: return;
  default: o[4] = -1;
  }
  assert(o[4] != 3);
  for (int i = 0; i < k; i++) { if (o[i] == 9) continue; if (o[i] == 10) break; o[i] += i; }
  if (k == 1000) __trap();
  if (k == 1001) asm volatile("brkpt;");
  o[10] = clock() + clock64();
}
