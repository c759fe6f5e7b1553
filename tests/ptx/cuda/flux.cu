//! in cells 512 f32:range=0.5,2 f32:range=-1,1 f32:range=-1,1 f32:range=2,5
//! in near 512 u32:below=512 u32:below=512
//! out out 512 f32 f32 f32 f32
//! run flux grid 4 block 128 args cells near out s32=512
// Fluxes between the cells of an unstructured mesh (compressible flow).
__device__ float pressure(float4 c) { return 0.4f * (c.w - 0.5f * (c.y * c.y + c.z * c.z) / c.x); }
extern "C" __global__ void flux(const float4 *cells, const uint2 *near, float4 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 c = cells[i], f = make_float4(0, 0, 0, 0);
  unsigned ids[2] = {near[i].x, near[i].y};
  for (int k = 0; k < 2; k++) {
    float4 d = cells[ids[k]];
    float p = pressure(c), q = pressure(d), speed = sqrtf(1.4f * fmaxf(p + q, 0.01f) / (c.x + d.x));
    float w = k ? 0.6f : -0.8f;
    f.x += w * (c.y + d.y) - speed * (c.x - d.x);
    f.y += w * (c.y * c.y / c.x + d.y * d.y / d.x + p + q) - speed * (c.y - d.y);
    f.z += w * (c.y * c.z / c.x + d.y * d.z / d.x) - speed * (c.z - d.z);
    f.w += w * ((c.w + p) * c.y / c.x + (d.w + q) * d.y / d.x) - speed * (c.w - d.w);
  }
  out[i] = f;
}
