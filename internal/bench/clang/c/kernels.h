/*
 * The kernels of package suite in plain C, to compare the software GPU with:
 * the same arithmetic on the same data as their OpenCL C, with loops in place
 * of a block's threads.
 *
 * A kernel does the items from `from` to `to - 1` of a launch, which are rows,
 * tiles or the like, in any order. Its parameters lie one after the other, each
 * aligned to its size, as those of the GPU's kernel do.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t uint;

/* How a kernel was launched: blocks of the grid, threads of a block. */
struct shape {
	uint grid_x, grid_y, block_x, block_y;
};

#define KERNEL(name) void name(const void *params, const struct shape *s, uint from, uint to)

/* All kernels, and what counts the items of their launches. */
#define KERNELS(X) \
	X(attention, tile_items) \
	X(bfs_step, block_items) \
	X(binomial, block_items) \
	X(bitonic_step, block_items) \
	X(bitonic_tile, block_items) \
	X(blackscholes, block_items) \
	X(bp_adjust, block_items) \
	X(bp_forward, block_items) \
	X(bp_hidden, one_item) \
	X(conv2d, row_items) \
	X(fft, block_items) \
	X(fmadd, row_items) \
	X(fmmul, tile_items) \
	X(histogram, block_items) \
	X(hmmul, tile_items) \
	X(hs_step, strip_items) \
	X(layernorm, block_items) \
	X(longmadd, row_items) \
	X(loop, block_items) \
	X(lud_border, pair_items) \
	X(lud_diagonal, one_item) \
	X(lud_inner, tile_items) \
	X(madd, row_items) \
	X(mmul, tile_items) \
	X(nbody, block_items) \
	X(nn, block_items) \
	X(reduction, block_items) \
	X(scan_add, block_items) \
	X(scan_blocks, block_items) \
	X(scan_sums, one_item) \
	X(sha256, block_items) \
	X(sobel, row_items) \
	X(softmax, block_items) \
	X(sort_count, block_items) \
	X(sort_scan, one_item) \
	X(sort_scatter, block_items) \
	X(spmv, block_items) \
	X(srad_coefficient, strip_items) \
	X(srad_compress, block_items) \
	X(srad_extract, block_items) \
	X(srad_scale, one_item) \
	X(srad_sum, block_items) \
	X(srad_update, strip_items) \
	X(transpose, tile_items)

#define DECLARE(name, items) KERNEL(name);
KERNELS(DECLARE)
#undef DECLARE

static inline uint least(uint a, uint b)
{
	return a < b ? a : b;
}
