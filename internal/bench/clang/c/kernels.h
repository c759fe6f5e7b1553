/*
 * The kernels of six programs of the Gdev suite in plain C, to compare the
 * software GPU with: the same arithmetic on the same data as the OpenCL C of
 * the suite, with loops in place of a block's threads.
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

/* The number of items of a launch, and the kernel. */
#define KERNEL(name) void name(const void *params, const struct shape *s, uint from, uint to)
#define ITEMS(name) uint name(const struct shape *s)

ITEMS(fmadd_items);
KERNEL(fmadd);
ITEMS(fmmul_items);
KERNEL(fmmul);
ITEMS(hs_step_items);
KERNEL(hs_step);
ITEMS(lud_diagonal_items);
KERNEL(lud_diagonal);
ITEMS(lud_border_items);
KERNEL(lud_border);
ITEMS(lud_inner_items);
KERNEL(lud_inner);
ITEMS(nn_items);
KERNEL(nn);
ITEMS(srad_flat_items);
KERNEL(srad_extract);
KERNEL(srad_compress);
KERNEL(srad_sum);
ITEMS(srad_scale_items);
KERNEL(srad_scale);
ITEMS(srad_row_items);
KERNEL(srad_coefficient);
KERNEL(srad_update);

static inline uint least(uint a, uint b)
{
	return a < b ? a : b;
}
