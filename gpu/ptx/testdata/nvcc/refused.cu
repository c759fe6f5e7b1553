// What the software GPU refuses: textures, asynchronous copies, matrix instructions.
#include <mma.h>
#include <cuda_pipeline.h>
extern "C" __global__ void texture(cudaTextureObject_t t, cudaSurfaceObject_t s, float *o) {
  o[0] = tex2D<float>(t, 0.5f, 0.25f);
  surf2Dwrite(o[1], s, 4, 5);
}
extern "C" __global__ void matrix(const half *a, const half *b, float *c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> x;
  fragment<matrix_b, 16, 16, 16, half, col_major> y;
  fragment<accumulator, 16, 16, 16, float> z;
  fill_fragment(z, 0.0f);
  load_matrix_sync(x, a, 16); load_matrix_sync(y, b, 16);
  mma_sync(z, x, y, z);
  store_matrix_sync(c, z, 16, mem_row_major);
}
extern "C" __global__ void packed(unsigned *o, unsigned a, unsigned b) {
  o[0] = __vadd2(a, b) + __vabsdiffu4(a, b) + __vmaxs2(a, b);
}
extern "C" __global__ void async(const float4 *p, float4 *o) {
  __shared__ float4 s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &p[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  o[threadIdx.x] = s[threadIdx.x ^ 1];
}
