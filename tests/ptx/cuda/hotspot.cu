//! in power 1024 f32:range=0,1
//! inout a 1024 f32:range=320,345
//! inout b 1024 f32:zero
//! run hotspot grid 2,2 block 16,16 args power a b s32=32
//! run hotspot grid 2,2 block 16,16 args power b a s32=32
//! run hotspot grid 2,2 block 16,16 args power a b s32=32
// Heat in a chip: one step of a stencil at a time.
extern "C" __global__ void hotspot(const float *power, const float *in, float *out, int n) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, i = y * n + x;
  float c = in[i];
  float left = x > 0 ? in[i - 1] : c, right = x < n - 1 ? in[i + 1] : c;
  float up = y > 0 ? in[i - n] : c, down = y < n - 1 ? in[i + n] : c;
  out[i] = c + 0.00341f * (power[i] + (up + down - 2.0f * c) / 0.1f + (left + right - 2.0f * c) / 0.1f + (80.0f - c) / 51.2f);
}
