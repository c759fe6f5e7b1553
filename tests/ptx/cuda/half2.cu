//! in x 512 f16x2:edge
//! in y 512 f16x2:edge
//! out z 512 f16x2 f16 f16
//! run halfs grid 4 block 128 args x y z s32=512
// Half precision arithmetic and conversion.
#include <cuda_fp16.h>
struct result { __half2 a; __half b, c; };
extern "C" __global__ void halfs(const __half2 *x, const __half2 *y, result *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  z[i].a = __hfma2(x[i], y[i], __hadd2(x[i], __float2half2_rn(0.25f)));
  z[i].b = __float2half_rn(__low2float(x[i]) * 3.0f + __high2float(y[i]));
  z[i].c = __hgt(__low2half(x[i]), __low2half(y[i])) ? __hmul(__high2half(x[i]), __high2half(y[i])) : __int2half_rn(i);
}
