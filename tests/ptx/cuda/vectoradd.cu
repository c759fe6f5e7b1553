//! in a 1000 f32:edge
//! in b 1000 f32:range=-100,100
//! out c 1000 f32
//! run vectorAdd grid 4 block 256 args a b c s32=1000
// Sum of two vectors.
extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i] + 0.0f;
}
