#include "check.h"

__global__ void nothing() {}

int main()
{
	struct { cudaDeviceProp is; char after[64]; } p;
	cudaFuncAttributes a;
	int runtime = 0, warp = 0, blocks = 0, block = 0, grid = 0;
	for (int i = 0; i < 64; i++)
		p.after[i] = 0x5a;
	OK(cudaGetDeviceProperties(&p.is, 0));
	for (int i = 0; i < 64; i++)
		REQUIRE(p.after[i] == 0x5a);
	OK(cudaRuntimeGetVersion(&runtime));
	REQUIRE(runtime / 1000 == CUDART_VERSION / 1000);
	OK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0));
	REQUIRE(p.is.warpSize == warp && p.is.maxThreadsPerBlock == 1024 && p.is.major >= 5 && p.is.name[0]);
	REQUIRE(p.is.sharedMemPerBlockOptin >= p.is.sharedMemPerBlock && p.is.maxBlocksPerMultiProcessor > 0);
	OK(cudaFuncGetAttributes(&a, nothing));
	REQUIRE(a.maxThreadsPerBlock > 0 && a.ptxVersion >= 50);
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 128, 0));
	OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, nothing));
	REQUIRE(blocks > 0 && block > 0 && grid > 0);
	puts("properties: PASS");
	return 0;
}
