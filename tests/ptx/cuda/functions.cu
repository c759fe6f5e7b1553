//! in in 256 s32:edge s32:edge s32:below=4
//! out out 256 s32
//! run apply grid 2 block 128 args in out
// Calls through a table of function pointers and through virtual methods.
typedef int (*binary)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int smaller(int a, int b) { return a < b ? a : b; }
__device__ int mixed(int a, int b) { return (a ^ b) * 31; }
__device__ binary table[4] = {plus, minus, smaller, mixed};
struct shape { __device__ virtual int area(int x) const = 0; };
struct square : shape { __device__ int area(int x) const { return x * x; } };
struct strip : shape { int w; __device__ strip(int w) : w(w) {} __device__ int area(int x) const { return x * w; } };
extern "C" __global__ void apply(const int3 *in, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int3 v = in[i];
  square q;
  strip s(v.y);
  const shape *p = v.z & 1 ? (const shape *)&q : (const shape *)&s;
  out[i] = table[v.z](v.x, v.y) + p->area(v.x);
}
