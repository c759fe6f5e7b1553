//! in in 5000 f32:range=-1,1
//! out part 8 f32
//! out sum 1 f32
//! run reduce grid 8 block 128 shared 16 args in part s32=5000
//! run reduce grid 1 block 32 shared 4 args part sum s32=8
// Sum of a vector: registers, warp shuffles, shared memory, a second launch.
extern "C" __global__ void reduce(const float *in, float *out, int n) {
  extern __shared__ float warps[];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) s += in[i];
  for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; w++) s += warps[w];
    out[blockIdx.x] = s;
  }
}
