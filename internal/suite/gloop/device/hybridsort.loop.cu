#include "loop.h"
#include "hybridsort.h"

static __shared__ u32 sums[1024];

KERNEL hybrid_count(gloop::Launch launch, Hybrid p) {
	gloop::run(launch, [=](Loop &loop) { hybridCount(known(p), loop.block().x); });
}

KERNEL hybrid_places(gloop::Launch launch, Hybrid p) {
	SHARED(sums);
	gloop::run(launch, [=](Loop &) { hybridPlaces(known(p), sums); });
}

KERNEL hybrid_scatter(gloop::Launch launch, Hybrid p) {
	gloop::run(launch, [=](Loop &loop) { hybridScatter(known(p), loop.block().x); });
}

/* Passes over a bucket, which is the logical block. */
static __device__ void passes(Loop &loop, Hybrid p, u32 width, bool even) {
	p = known(p);
	u32 bucket = loop.block().x;
	while (hybridMore(p, bucket, width)) {
		hybridMerge(p, bucket, width, even);
		width *= 2, even = !even;
		if (postTaskIfNecessary(loop, [=](Loop &loop) { passes(loop, p, width, even); }))
			return;
	}
	hybridSettle(p, bucket, even);
}

KERNEL hybrid_sort(gloop::Launch launch, Hybrid p) {
	gloop::run(launch, [=](Loop &loop) { passes(loop, p, 1, true); });
}
