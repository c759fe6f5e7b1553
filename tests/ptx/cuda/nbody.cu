//! in pos 256 f32:range=-1,1 f32:range=-1,1 f32:range=-1,1 f32:range=0.1,1
//! out acc 256 f32~rel=2^-12|abs=2^-12 f32~rel=2^-12|abs=2^-12 f32~rel=2^-12|abs=2^-12 f32
//! run nbody grid 2 block 128 args pos acc s32=256
// Forces between bodies, a tile of them at a time.
extern "C" __global__ void nbody(const float4 *pos, float4 *acc, int n) {
  __shared__ float4 tile[128];
  float4 p = pos[blockIdx.x * 128 + threadIdx.x], a = make_float4(0, 0, 0, 0);
  for (int t = 0; t < n; t += 128) {
    tile[threadIdx.x] = pos[t + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 128; j++) {
      float4 q = tile[j];
      float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z, d = x * x + y * y + z * z + 0.01f, r = rsqrtf(d), s = q.w * r * r * r;
      a.x += x * s; a.y += y * s; a.z += z * s;
    }
    __syncthreads();
  }
  acc[blockIdx.x * 128 + threadIdx.x] = a;
}
