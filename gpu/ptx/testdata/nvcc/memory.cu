// State spaces, vectors, atomics of all scopes, fences.
__constant__ float table[64];
__constant__ int initial[3] = {1, 2, 3};
__device__ int counter = 42;
__device__ int *pointer = &counter;
__device__ const char *names[3] = {"one", "two", "three"};
__device__ float4 quads[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
__managed__ int managed;
extern __shared__ double dynamic[];
extern "C" __global__ void memory(float4 *v, const float4 *__restrict__ ro, int2 *w, char4 *c, short *s, double2 *d, int k) {
  __shared__ float tile[33][32];
  __shared__ __align__(16) char bytes[64];
  int i = threadIdx.x, priv[32];
  for (int j = 0; j < 32; j++) priv[j] = w[j].x;
  v[i] = ro[i + 1]; v[i].x += __ldg(&ro[i].y) + table[i & 63]; w[i] = make_int2(w[i].y, priv[k & 31] + initial[k % 3]);
  c[i] = make_char4(c[i].w, c[i].z, c[i].y, 1); s[i] = s[i + 1]; d[i] = d[i + 1];
  tile[i][k] = v[i].z; bytes[i] = *names[k % 3]; dynamic[i] = d[i].x;
  __syncthreads();
  v[i].w = tile[k][i] + bytes[k] + dynamic[i ^ 1] + *pointer + quads[k].y;
  managed = counter++;
  __stcs(&w[1].x, __ldcg(&w[2].x)); __stwt(&w[3].x, __ldcs(&w[4].x)); __stcg(&w[5].x, __ldlu(&w[6].x)); v[9] = __ldcv(v + 10);
  *(volatile int *)&w[7].x = *(volatile int *)&w[8].x;
}
extern "C" __global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1); atomicAdd(i, 2); atomicSub(i, 3); u[1] = atomicExch(u, 4); atomicMin(i, 5); atomicMax(u, 6); atomicInc(u, 7); u[2] = atomicDec(u, 8);
  i[1] = atomicCAS(i, 1, 2); atomicAnd(i, 3); atomicOr(u, 4); atomicXor(l, 5); atomicAdd(l, 6); l[1] = atomicCAS(l, 7, 8); l[2] = atomicMax(l, 3); atomicAdd(f, 1.5f);
  atomicExch(f, 2.5f);
#if __CUDA_ARCH__ >= 600
  atomicAdd(d, 2.5); atomicAdd_block(i, 1); i[2] = atomicAdd_system(i, 2); atomicCAS_block(u, 1, 2);
#endif
#if __CUDA_ARCH__ >= 700
  unsigned short *h = (unsigned short *)i; h[7] = atomicCAS(h, 1, 2);
#endif
  __threadfence(); __threadfence_block(); __threadfence_system();
  i[9] = s;
}
