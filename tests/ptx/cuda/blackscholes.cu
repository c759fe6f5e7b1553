//! in options 512 f32:range=5,30 f32:range=1,100 f32:range=0.25,10
//! out prices 512 f32~abs=1e-4 f32~abs=1e-4
//! run price grid 4 block 128 args options prices s32=512 f32=0.02 f32=0.3
// Prices of European options.
struct option { float s, x, t; };
__device__ float cnd(float d) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228040143267793994605993438f * expf(-0.5f * d * d) *
    (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - c : c;
}
extern "C" __global__ void price(const option *in, float2 *out, int n, float r, float v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  option o = in[i];
  float q = sqrtf(o.t), d1 = (logf(o.s / o.x) + (r + 0.5f * v * v) * o.t) / (v * q), d2 = d1 - v * q;
  float n1 = cnd(d1), n2 = cnd(d2), e = expf(-r * o.t);
  out[i] = make_float2(o.s * n1 - o.x * e * n2, o.x * e * (1.0f - n2) - o.s * (1.0f - n1));
}
