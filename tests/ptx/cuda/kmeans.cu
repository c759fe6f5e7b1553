//! in points 2048 f32:range=-10,10
//! in centres 32 f32:range=-10,10
//! out member 512 s32
//! inout count 8 s32:zero
//! run kmeans grid 4 block 128 args points centres member count s32=512
// Nearest of eight centres for points of four dimensions.
extern "C" __global__ void kmeans(const float4 *points, const float4 *centres, int *member, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, best = 0;
  if (i >= n) return;
  float4 p = points[i];
  float least = 3.4e38f;
  for (int c = 0; c < 8; c++) {
    float4 q = centres[c];
    float d = (p.x - q.x) * (p.x - q.x) + (p.y - q.y) * (p.y - q.y) + (p.z - q.z) * (p.z - q.z) + (p.w - q.w) * (p.w - q.w);
    if (d < least) { least = d; best = c; }
  }
  member[i] = best;
  atomicAdd(&count[best], 1);
}
