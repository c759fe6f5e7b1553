// A five-point stencil with shared memory, boundaries and time steps.
#define B 16
__kernel void hotspot(int steps, __global const float *power, __global const float *src, __global float *dst, int cols, int rows,
                      float cap, float rx, float ry, float rz, float step) {
  __local float t[B][B], pw[B][B], next[B][B];
  int bx = __nvvm_read_ptx_sreg_ctaid_x(), by = __nvvm_read_ptx_sreg_ctaid_y();
  int tx = __nvvm_read_ptx_sreg_tid_x(), ty = __nvvm_read_ptx_sreg_tid_y();
  int y0 = (B - 2 * steps) * by - steps, x0 = (B - 2 * steps) * bx - steps;
  int y = y0 + ty, x = x0 + tx, at = cols * y + x;
  int in = y >= 0 && y < rows && x >= 0 && x < cols;
  if (in) { t[ty][tx] = src[at]; pw[ty][tx] = power[at]; }
  __syncthreads();
  int done = 0;
  for (int i = 0; i < steps; i++) {
    done = 0;
    if (tx > i && tx < B - 1 - i && ty > i && ty < B - 1 - i && in) {
      done = 1;
      float c = t[ty][tx];
      next[ty][tx] = c + step / cap * (pw[ty][tx] + (t[ty + 1][tx] + t[ty - 1][tx] - 2.0f * c) / ry +
                                       (t[ty][tx + 1] + t[ty][tx - 1] - 2.0f * c) / rx + (80.0f - c) / rz);
    }
    __syncthreads();
    if (i == steps - 1) break;
    if (done) t[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (done) dst[at] = next[ty][tx];
}
