//! in input 256 f32:range=0,1
//! in weights 4096 f32:range=-0.5,0.5
//! out hidden 16 f32~rel=2^-18
//! run forward grid 16 block 256 args input weights hidden
// One layer of a neural network with a sigmoid.
extern "C" __global__ void forward(const float *input, const float *weights, float *hidden) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = input[t] * weights[blockIdx.x * 256 + t];
  for (int d = 128; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) s[t] += s[t + d];
  }
  if (t == 0) hidden[blockIdx.x] = 1.0f / (1.0f + expf(-s[0]));
}
