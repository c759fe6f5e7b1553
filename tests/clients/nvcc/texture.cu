// Textures and surfaces by objects: a filter, a level and a store.
#include "check.h"

enum { N = 8 };

__global__ void look(cudaTextureObject_t flat, cudaTextureObject_t levels, cudaSurfaceObject_t to, float *out)
{
	int x = threadIdx.x;
	out[x] = tex2D<float>(flat, x + 1.0f, 0.5f);
	out[N + x] = tex2DLod<float>(levels, 0, 0, x); // normalized: there are levels
	surf2Dwrite(10.0f * x, to, x * (int)sizeof(float), 0);
}

int main()
{
	cudaArray_t array, surface, level;
	cudaMipmappedArray_t mipmapped;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	float row[N], out[2 * N], stored[N], *device;
	REQUIRE(format.x == 32 && format.f == cudaChannelFormatKindFloat);
	for (int i = 0; i < N; i++)
		row[i] = i;
	OK(cudaMallocArray(&array, &format, N, 1));
	OK(cudaMallocArray(&surface, &format, N, 1, cudaArraySurfaceLoadStore));
	OK(cudaMemcpy2DToArray(array, 0, 0, row, sizeof row, sizeof row, 1, cudaMemcpyHostToDevice));
	OK(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(N, N, 0), 4));
	for (int i = 0; i < 4; i++) {
		OK(cudaGetMipmappedArrayLevel(&level, mipmapped, i));
		OK(cudaMemcpy2DToArray(level, 0, 0, &row[i], sizeof(float), sizeof(float), 1, cudaMemcpyHostToDevice));
	}

	cudaResourceDesc resource = {};
	cudaTextureDesc how = {};
	cudaTextureObject_t flat, levels;
	cudaSurfaceObject_t to;
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
	how.filterMode = cudaFilterModeLinear;
	OK(cudaCreateTextureObject(&flat, &resource, &how, nullptr));
	resource.res.array.array = surface;
	OK(cudaCreateSurfaceObject(&to, &resource));
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = mipmapped;
	how.filterMode = cudaFilterModePoint;
	how.maxMipmapLevelClamp = N;
	OK(cudaCreateTextureObject(&levels, &resource, &how, nullptr));
	OK(cudaMalloc(&device, sizeof out));
	look<<<1, N>>>(flat, levels, to, device);
	OK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
	OK(cudaMemcpy2DFromArray(stored, sizeof stored, surface, 0, 0, sizeof stored, 1, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++) {
		REQUIRE(out[i] == (i < N - 1 ? i + 0.5f : i));
		REQUIRE(out[N + i] == (i < 3 ? i : 3));
		REQUIRE(stored[i] == 10.0f * i);
	}
	OK(cudaDestroyTextureObject(flat));
	OK(cudaDestroyTextureObject(levels));
	OK(cudaDestroySurfaceObject(to));
	OK(cudaFreeMipmappedArray(mipmapped));
	OK(cudaFreeArray(array));
	OK(cudaFreeArray(surface));
	puts("texture: PASS");
	return 0;
}
