#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define OK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e_)); exit(1); } } while (0)
__global__ void add(const float *a, const float *b, float *c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
template <int TILE> __global__ void mul(const float *a, const float *b, float *c, int n) {
	__shared__ float as[TILE][TILE], bs[TILE][TILE];
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
	float s = 0;
	for (int t = 0; t < n / TILE; t++) {
		as[threadIdx.y][threadIdx.x] = a[y * n + t * TILE + threadIdx.x];
		bs[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + x];
		__syncthreads();
		for (int k = 0; k < TILE; k++) s += as[threadIdx.y][k] * bs[k][threadIdx.x];
		__syncthreads();
	}
	c[y * n + x] = s;
}
__constant__ float scale[4];
__device__ int counter = 5;
__global__ void symbols(float *out) { extern __shared__ float sh[]; sh[threadIdx.x] = scale[threadIdx.x % 4]; __syncthreads(); out[threadIdx.x] = sh[blockDim.x - 1 - threadIdx.x]; atomicAdd(&counter, 1); }
__global__ void hello(int n) { printf("hello %d from %d\n", n, threadIdx.x); }
int main() {
	int devices, n = 1 << 16; OK(cudaGetDeviceCount(&devices));
	cudaDeviceProp p; OK(cudaGetDeviceProperties(&p, 0)); printf("devices %d warp %d\n", devices, p.warpSize);
	float *a = (float *)malloc(n * 4), *b = (float *)malloc(n * 4), *c = (float *)malloc(n * 4), *da, *db, *dc;
	for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
	OK(cudaMalloc(&da, n * 4)); OK(cudaMalloc(&db, n * 4)); OK(cudaMalloc(&dc, n * 4));
	OK(cudaMemcpy(da, a, n * 4, cudaMemcpyHostToDevice)); OK(cudaMemcpy(db, b, n * 4, cudaMemcpyHostToDevice));
	add<<<(n + 255) / 256, 256>>>(da, db, dc, n); OK(cudaGetLastError());
	OK(cudaMemcpy(c, dc, n * 4, cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++) if (c[i] != 3 * i) { printf("add: c[%d] = %f\n", i, c[i]); return 1; }
	const int m = 64;
	cudaStream_t s; OK(cudaStreamCreate(&s));
	cudaEvent_t e0, e1; OK(cudaEventCreate(&e0)); OK(cudaEventCreate(&e1));
	OK(cudaEventRecord(e0, s));
	mul<16><<<dim3(m / 16, m / 16), dim3(16, 16), 0, s>>>(da, db, dc, m); OK(cudaGetLastError());
	OK(cudaEventRecord(e1, s)); OK(cudaEventSynchronize(e1)); float ms; OK(cudaEventElapsedTime(&ms, e0, e1));
	OK(cudaMemcpyAsync(c, dc, m * m * 4, cudaMemcpyDeviceToHost, s)); OK(cudaStreamSynchronize(s));
	for (int y = 0; y < m; y++) for (int x = 0; x < m; x++) { float want = 0; for (int k = 0; k < m; k++) want += a[y * m + k] * b[k * m + x]; if (abs(c[y * m + x] - want) > 1e-4 * want) { printf("mul: %f %f\n", c[y * m + x], want); return 1; } }
	float sc[4] = {1, 2, 3, 4}; OK(cudaMemcpyToSymbol(scale, sc, sizeof sc));
	symbols<<<1, 32, 32 * 4>>>(dc); OK(cudaDeviceSynchronize());
	int count; OK(cudaMemcpyFromSymbol(&count, counter, 4)); OK(cudaMemcpy(c, dc, 32 * 4, cudaMemcpyDeviceToHost));
	if (count != 37 || c[0] != 4 || c[31] != 1) { printf("symbols: %d %f\n", count, c[0]); return 1; }
	float *h; OK(cudaMallocHost(&h, 4096)); OK(cudaMemset(dc, 0, 4096)); OK(cudaMemcpy(h, dc, 4096, cudaMemcpyDefault)); if (h[7] != 0) return 1;
	float *um; OK(cudaMallocManaged(&um, 4096)); 
	hello<<<1, 2>>>(7); OK(cudaDeviceSynchronize());
	add<<<1, 2048>>>(da, db, dc, n); cudaError_t bad = cudaGetLastError(); printf("bad launch: %s\n", cudaGetErrorName(bad));
	size_t freeb, total; OK(cudaMemGetInfo(&freeb, &total)); int blocks; OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
	cudaFuncAttributes at; OK(cudaFuncGetAttributes(&at, add)); printf("ptx %d blocks>0 %d\n", at.ptxVersion > 0, blocks > 0);
	OK(cudaFree(um)); OK(cudaFreeHost(h)); OK(cudaFree(da)); OK(cudaStreamDestroy(s)); OK(cudaEventDestroy(e0)); OK(cudaDeviceReset());
	printf("verified\n");
}
