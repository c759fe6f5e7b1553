// Kernels in the style of the Rodinia suite.
struct node { int start, count; };
extern "C" __global__ void bfs(const node *n, const int *edges, bool *mask, bool *next, const bool *seen, int *cost, int count) {
  int t = blockIdx.x * 512 + threadIdx.x;
  if (t < count && mask[t]) {
    mask[t] = false;
    for (int i = n[t].start; i < n[t].count + n[t].start; i++) {
      int id = edges[i];
      if (!seen[id]) { cost[id] = cost[t] + 1; next[id] = true; }
    }
  }
}
extern "C" __global__ void lud(float *m, int dim, int offset) {
  __shared__ float s[16][16];
  int i, j, at = offset * dim + offset;
  for (i = 0; i < 16; i++) { s[i][threadIdx.x] = m[at + threadIdx.x]; at += dim; }
  __syncthreads();
  for (i = 0; i < 15; i++) {
    if (threadIdx.x > i) {
      for (j = 0; j < i; j++) s[threadIdx.x][i] -= s[threadIdx.x][j] * s[j][i];
      s[threadIdx.x][i] /= s[i][i];
    }
    __syncthreads();
    if (threadIdx.x > i) for (j = 0; j < i + 1; j++) s[i + 1][threadIdx.x] -= s[i + 1][j] * s[j][threadIdx.x];
    __syncthreads();
  }
  at = (offset + 1) * dim + offset;
  for (i = 1; i < 16; i++) { m[at + threadIdx.x] = s[i][threadIdx.x]; at += dim; }
}
extern "C" __global__ void nn(const float2 *loc, float *dist, int count, float lat, float lng) {
  int i = blockDim.x * (gridDim.x * blockIdx.y + blockIdx.x) + threadIdx.x;
  if (i < count) dist[i] = sqrtf((lat - loc[i].x) * (lat - loc[i].x) + (lng - loc[i].y) * (lng - loc[i].y));
}
extern "C" __global__ void srad(float lambda, int rows, int cols, const int *n, const int *s, const int *e, const int *w, float q0, float *c, const float *img) {
  int t = blockIdx.x * 256 + threadIdx.x;
  if (t >= rows * cols) return;
  int row = t % rows, col = t / rows;
  float j = img[t], dn = img[n[row] + rows * col] - j, ds = img[s[row] + rows * col] - j, dw = img[row + rows * w[col]] - j, de = img[row + rows * e[col]] - j;
  float g = (dn * dn + ds * ds + dw * dw + de * de) / (j * j), l = (dn + ds + dw + de) / j;
  float num = 0.5f * g - (1.0f / 16.0f) * (l * l), den = 1 + .25f * l, q = num / (den * den);
  den = (q - q0) / (q0 * (1 + q0));
  float r = 1.0f / (1.0f + den);
  c[t] = (r < 0 ? 0 : r > 1 ? 1 : r) * lambda;
}
extern "C" __global__ void histogram(const uchar4 *p, unsigned *o, int n) {
  __shared__ unsigned h[256];
  h[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    uchar4 v = p[i];
    atomicAdd(&h[v.x], 1); atomicAdd(&h[v.y], 1); atomicAdd(&h[v.z], 1); atomicAdd(&h[v.w], 1);
  }
  __syncthreads();
  atomicAdd(&o[threadIdx.x], h[threadIdx.x]);
}
template <typename T, int N> __device__ void step(T *s, int t) { if (N > 0) { if (t < N) s[t] += s[t + N]; __syncthreads(); step<T, N / 2>(s, t); } }
template <> __device__ void step<double, 0>(double *, int) {}
extern "C" __global__ void sum(const double *in, double *out) {
  __shared__ double s[256];
  s[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  step<double, 128>(s, threadIdx.x);
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
