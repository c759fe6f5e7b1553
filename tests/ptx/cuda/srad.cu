//! inout img 1024 f32:range=0.2,1
//! out coef 1024 f32
//! run srad1 grid 2,2 block 16,16 args img coef s32=32 f32=0.053
//! run srad2 grid 2,2 block 16,16 args img coef s32=32 f32=0.5
// Speckle reducing anisotropic diffusion: coefficients, then the image.
__device__ float at(const float *p, int x, int y, int n) {
  return p[min(max(y, 0), n - 1) * n + min(max(x, 0), n - 1)];
}
extern "C" __global__ void srad1(const float *img, float *coef, int n, float q0) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float c = img[y * n + x];
  float dn = at(img, x, y - 1, n) - c, ds = at(img, x, y + 1, n) - c, dw = at(img, x - 1, y, n) - c, de = at(img, x + 1, y, n) - c;
  float g2 = (dn * dn + ds * ds + dw * dw + de * de) / (c * c), l = (dn + ds + dw + de) / c;
  float num = 0.5f * g2 - (1.0f / 16.0f) * (l * l), den = 1 + 0.25f * l, q = num / (den * den);
  den = (q - q0) / (q0 * (1 + q0));
  float k = 1.0f / (1.0f + den);
  coef[y * n + x] = k < 0 ? 0 : k > 1 ? 1 : k;
}
extern "C" __global__ void srad2(float *img, const float *coef, int n, float lambda) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float k = coef[y * n + x], d = at(coef, x, y + 1, n) + at(coef, x + 1, y, n) - 2 * k;
  img[y * n + x] = sqrtf(img[y * n + x]) + 0.25f * lambda * d;
}
