// What llm.c uses of cooperative groups: blocks, and their warps as tiles.
#ifndef LLMC_COOPERATIVE_GROUPS_H
#define LLMC_COOPERATIVE_GROUPS_H

#include <cuda_runtime.h>

namespace cooperative_groups {

struct thread_block {
	static __device__ unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
	static __device__ unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
	static __device__ void sync() { __syncthreads(); }
};
static inline __device__ thread_block this_thread_block() { return {}; }

template <unsigned N>
struct thread_block_tile {
	static_assert(N == 32, "tiles are warps");
	static __device__ unsigned thread_rank() { return thread_block::thread_rank() % N; }
	static __device__ unsigned size() { return N; }
	static __device__ unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
	static __device__ unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
	static __device__ float shfl_xor(float v, int by) { return __nvvm_shfl_sync_bfly_f32(0xffffffff, v, by, 31); }
};
template <unsigned N>
static inline __device__ thread_block_tile<N> tiled_partition(const thread_block &) { return {}; }

template <typename T>
struct plus {
	__device__ T operator()(T a, T b) const { return a + b; }
};
template <typename T>
struct greater {
	__device__ T operator()(T a, T b) const { return a > b ? a : b; }
};
template <typename Tile, typename Op>
static inline __device__ float reduce(const Tile &tile, float v, Op op)
{
	for (int by = 16; by > 0; by /= 2)
		v = op(v, tile.shfl_xor(v, by));
	return v;
}

} // namespace cooperative_groups

#endif
