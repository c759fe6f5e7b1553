//! in places 1000 f32:range=-90,90 f32:range=-180,180
//! out distance 1000 f32
//! run nn grid 8 block 128 args places distance s32=1000 f32=30.5 f32=-77.25
// Distances for nearest neighbours.
extern "C" __global__ void nn(const float2 *places, float *distance, int n, float lat, float lng) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p = places[i];
  distance[i] = sqrtf((lat - p.x) * (lat - p.x) + (lng - p.y) * (lng - p.y));
}
