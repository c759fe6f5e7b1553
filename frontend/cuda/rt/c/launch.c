// Launches, what a kernel is like, and how many of its blocks fit.
#include "cudart.h"

// A <<<>>> pushes its configuration; the stub of the kernel, which nvcc generates,
// pops it. Arguments may be made by launches themselves, so they nest.
struct configuration {
	struct dim3 grid, block;
	size_t shared;
	CUstream stream;
};

enum { NESTED = 64 };

static __thread struct configuration pushed[NESTED];
static __thread unsigned depth;

PUBLIC unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, CUstream stream)
{
	if (depth == NESTED)
		return done(__func__, say(MISSING_CONFIGURATION, "too many launches in the arguments of launches"));
	pushed[depth++] = (struct configuration){grid, block, shared, stream};
	return SUCCESS;
}

PUBLIC int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
	if (depth == 0)
		return done(__func__, say(MISSING_CONFIGURATION, "a kernel is called without <<<>>>"));
	if (!grid || !block || !shared || !stream)
		return done(__func__, INVALID_VALUE);
	// What is not null is a variable of the stub.
	struct configuration c = pushed[--depth];
	*grid = c.grid;
	*block = c.block;
	*shared = c.shared;
	*(CUstream *)stream = c.stream;
	return SUCCESS;
}

static int launch(const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, CUstream stream)
{
	CUfunction kernel;
	if (shared > UINT32_MAX)
		return say(INVALID_VALUE, "more shared memory than there is");
	int r = kernel_of(function, &kernel);
	return r ? r : cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments, NULL);
}

static int launch_cooperative(const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, CUstream stream)
{
	CUfunction kernel;
	if (shared > UINT32_MAX)
		return say(INVALID_VALUE, "more shared memory than there is");
	int r = kernel_of(function, &kernel);
	return r ? r : cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments);
}

// cudaLaunchConfig_t and CUlaunchConfig: the same attributes, but the size of
// shared memory has another width and another place.
struct launch_config {
	struct dim3 grid, block;
	size_t shared;
	CUstream stream;
	void *attributes;
	unsigned n;
};

struct driver_launch_config {
	struct dim3 grid, block;
	unsigned shared;
	CUstream stream;
	void *attributes;
	unsigned n;
};

_Static_assert(sizeof(struct launch_config) == 56 && sizeof(struct driver_launch_config) == 56, "both have 56 bytes");

// prepare_launch finds the kernel of a launch, and its configuration as the driver API has it.
static int prepare_launch(const struct launch_config *config, const void *function, struct driver_launch_config *d, CUfunction *kernel)
{
	struct launch_config c;
	int r = fetch(&c, config, sizeof c);
	if (r || (r = kernel_of(function, kernel)))
		return r;
	if (c.shared > UINT32_MAX)
		return say(INVALID_VALUE, "more shared memory than there is");
	*d = (struct driver_launch_config){c.grid, c.block, (unsigned)c.shared, c.stream, c.attributes, c.n};
	return 0;
}

static int launch_ex(const struct launch_config *config, const void *function, void **arguments, int per_thread)
{
	struct driver_launch_config d;
	CUfunction kernel;
	int r = prepare_launch(config, function, &d, &kernel);
	if (r)
		return r;
	d.stream = ON(d.stream);
	return cuLaunchKernelEx(&d, kernel, arguments, NULL);
}

// occupancy_of_clusters asks for the number of clusters that run at the same time, or for their largest size.
static int occupancy_of_clusters(int *to, const void *function, const struct launch_config *config,
	CUresult (*ask)(int *, CUfunction, const struct driver_launch_config *))
{
	struct driver_launch_config d;
	CUfunction kernel;
	int r = prepare_launch(config, function, &d, &kernel);
	return r ? r : (int)ask(to, kernel, &d);
}

BOTH(cudaLaunchKernel, _ptsz, (const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, CUstream stream),
     launch(function, grid, block, arguments, shared, ON(stream)))
BOTH(__cudaLaunchKernel, _ptsz, (const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, CUstream stream),
     launch(kernel, grid, block, arguments, shared, ON(stream)))
BOTH(cudaLaunchCooperativeKernel, _ptsz, (const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, CUstream stream),
     launch_cooperative(function, grid, block, arguments, shared, ON(stream)))
BOTH(cudaLaunchKernelExC, _ptsz, (const struct launch_config *config, const void *function, void **arguments),
     launch_ex(config, function, arguments, per_thread))

// cudaFuncAttributes
struct attributes {
	size_t shared, constant, local;
	int max_threads, registers, ptx, binary, cache_mode, max_dynamic, carveout;
#if MAJOR >= 12
	int cluster_must_be_set, cluster_width, cluster_height, cluster_depth, cluster_policy, cluster_not_portable;
	int reserved[16];
#endif
};

_Static_assert(sizeof(struct attributes) == (MAJOR == 11 ? 56 : 144), "the bytes of cudaFuncAttributes");

static int get_attributes(struct attributes *to, const void *function)
{
	// By CUfunction_attribute, from 0 on.
	int value[16];
	CUfunction kernel;
	int r = kernel_of(function, &kernel);
	for (int i = 0; i < 16 && !r; i++)
		r = cuFuncGetAttribute(&value[i], i, kernel);
	if (r)
		return r;
	struct attributes a = {
		.shared = (size_t)value[1], .constant = (size_t)value[2], .local = (size_t)value[3],
		.max_threads = value[0], .registers = value[4], .ptx = value[5], .binary = value[6],
		.cache_mode = value[7], .max_dynamic = value[8], .carveout = value[9],
#if MAJOR >= 12
		.cluster_must_be_set = value[10], .cluster_width = value[11], .cluster_height = value[12],
		.cluster_depth = value[13], .cluster_not_portable = value[14], .cluster_policy = value[15],
#endif
	};
	return store(to, &a, sizeof a);
}

// WITH runs a call of the driver API with the kernel of a function.
#define WITH(name, params, function, call)                    \
	static int with_##name params                         \
	{                                                     \
		CUfunction kernel;                            \
		int r = kernel_of(function, &kernel);         \
		return r ? r : (int)(call);                   \
	}

WITH(set_attribute, (const void *f, int attribute, int value), f, cuFuncSetAttribute(kernel, attribute, value))
WITH(set_attribute_for, (const void *f, int attribute, int value, int device), f, cuKernelSetAttribute(attribute, value, (CUkernel)kernel, device))
WITH(set_cache, (const void *f, int config), f, cuFuncSetCacheConfig(kernel, config))
WITH(set_banks, (const void *f, int config), f, cuFuncSetSharedMemConfig(kernel, config))
WITH(get_name, (const char **name, const void *f), f, cuFuncGetName(name, kernel))
WITH(get_param, (const void *f, size_t i, size_t *offset, size_t *bytes), f, cuFuncGetParamInfo(kernel, i, offset, bytes))
WITH(blocks, (int *blocks, const void *f, int threads, size_t dynamic, unsigned flags), f,
     cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, dynamic, flags))
WITH(dynamic, (size_t *bytes, const void *f, int blocks, int threads), f, cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel, blocks, threads))

API(cudaFuncGetAttributes, (struct attributes *to, const void *function), get_attributes(to, function))
API(cudaFuncSetAttribute, (const void *function, int attribute, int value), with_set_attribute(function, attribute, value))
API(cudaFuncSetCacheConfig, (const void *function, int config), with_set_cache(function, config))
API(cudaFuncSetSharedMemConfig, (const void *function, int config), with_set_banks(function, config))
API(cudaKernelSetAttributeForDevice, (const void *kernel, int attribute, int value, int device),
    with_set_attribute_for(kernel, attribute, value, device))
API(cudaFuncGetName, (const char **name, const void *function), with_get_name(name, function))
API(cudaFuncGetParamInfo, (const void *function, size_t i, size_t *offset, size_t *bytes), with_get_param(function, i, offset, bytes))
API(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *function, int threads, size_t dynamic),
    with_blocks(blocks, function, threads, dynamic, 0))
API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *blocks, const void *function, int threads, size_t dynamic, unsigned flags),
    with_blocks(blocks, function, threads, dynamic, flags))
API(cudaOccupancyMaxActiveClusters, (int *clusters, const void *function, const struct launch_config *config),
    occupancy_of_clusters(clusters, function, config, cuOccupancyMaxActiveClusters))
API(cudaOccupancyMaxPotentialClusterSize, (int *blocks, const void *function, const struct launch_config *config),
    occupancy_of_clusters(blocks, function, config, cuOccupancyMaxPotentialClusterSize))
API(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t *bytes, const void *function, int blocks, int threads),
    with_dynamic(bytes, function, blocks, threads))
