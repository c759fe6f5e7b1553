#include "img.h"

/* A block for each query. */
KERNEL img(const u32 *queries, const u32 *database, u32 first, u32 n, u32 threshold, u32 *found) {
	if (found[block()] == IMG_NONE)
		imgMatch(queries + block() * (IMG_BYTES / 4), database, first, n, threshold, &found[block()]);
}
