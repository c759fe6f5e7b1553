#include "hybridsort.h"

KERNEL hybrid_count(Hybrid p) { hybridCount(p, block()); }

KERNEL hybrid_places(Hybrid p) {
	static __shared__ u32 sums[1024];
	SHARED(sums);
	hybridPlaces(p, sums);
}

KERNEL hybrid_scatter(Hybrid p) { hybridScatter(p, block()); }

/* A block for each bucket makes all passes. */
KERNEL hybrid_sort(Hybrid p) {
	bool even = true;
	for (u32 width = 1; hybridMore(p, block(), width); width *= 2, even = !even)
		hybridMerge(p, block(), width, even);
	hybridSettle(p, block(), even);
}

/* kernel-split: one pass, of all buckets. Each has one launch more, which copies. */
KERNEL hybrid_pass(Hybrid p, u32 width, u32 even) {
	if (hybridMore(p, block(), width))
		hybridMerge(p, block(), width, even != 0);
	else if (width == 1 || hybridMore(p, block(), width / 2))
		hybridSettle(p, block(), even != 0);
}
