/*
 * hybridsort: sorts floating-point numbers. It puts them into buckets of about equal
 * ranges, and sorts each bucket by merging sorted runs of twice the width in each pass.
 */
#pragma once
#include "base.h"

struct Hybrid {
	float *keys, *sorted; /* in the end both are the same bucket by bucket */
	u32 count, buckets;   /* a power of two, at most 1024 */
	float low, scale;     /* a key's bucket is (key - low) * scale */
	u32 *sizes, *starts, *cursors; /* of buckets; starts has one more */
};

FN Hybrid known(Hybrid p) {
	p.keys = global(p.keys), p.sorted = global(p.sorted);
	p.sizes = global(p.sizes), p.starts = global(p.starts), p.cursors = global(p.cursors);
	return p;
}

FN u32 hybridBucket(const Hybrid &p, float key) { return least((u32)((key - p.low) * p.scale), p.buckets - 1); }

/* How many keys of a piece each thread of the block has: a piece of one key a thread is done before a block has begun it. */
#define HYBRID_EACH 16

/* Counts a piece of the keys. */
FN void hybridCount(const Hybrid &p, u32 piece) {
	u32 from = piece * threads() * HYBRID_EACH, to = least(from + threads() * HYBRID_EACH, p.count);
	for (u32 i = from + thread(); i < to; i += threads())
		atomicPlus(&p.sizes[hybridBucket(p, p.keys[i])], 1u);
}

/* One block makes the places at which buckets begin of their sizes. */
FN void hybridPlaces(const Hybrid &p, u32 *sums) {
	u32 each = (p.buckets + threads() - 1) / threads(), from = least(thread() * each, p.buckets), to = least(from + each, p.buckets);
	u32 sum = 0;
	for (u32 i = from; i < to; i++)
		sum += p.sizes[i];
	sums[thread()] = sum;
	barrier();
	sum = 0;
	for (u32 i = 0; i < thread(); i++)
		sum += sums[i];
	for (u32 i = from; i < to; i++) {
		p.starts[i] = p.cursors[i] = sum;
		sum += p.sizes[i];
	}
	if (thread() == threads() - 1)
		p.starts[p.buckets] = p.count;
	barrier();
}

FN void hybridScatter(const Hybrid &p, u32 piece) {
	u32 from = piece * threads() * HYBRID_EACH, to = least(from + threads() * HYBRID_EACH, p.count);
	for (u32 i = from + thread(); i < to; i += threads())
		p.sorted[atomicPlus(&p.cursors[hybridBucket(p, p.keys[i])], 1u)] = p.keys[i];
}

/* The number of keys of n sorted ones that are below key, or, with ties, not above it. */
FN u32 hybridRank(const float *keys, u32 n, float key, bool ties) {
	u32 lo = 0;
	while (lo < n) {
		u32 mid = (lo + n) / 2;
		if (keys[mid] < key || (ties && keys[mid] == key))
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/* Merges runs of a width in a bucket: from sorted to keys if even, else back. */
FN void hybridMerge(const Hybrid &p, u32 bucket, u32 width, bool even) {
	u32 start = p.starts[bucket], size = p.starts[bucket + 1] - start;
	const float *from = (even ? p.sorted : p.keys) + start;
	float *to = (even ? p.keys : p.sorted) + start;
	for (u32 i = thread(); i < size; i += threads()) {
		u32 run = i / width, pair = run / 2 * 2 * width, other = (run ^ 1) * width;
		u32 length = other < size ? least(width, size - other) : 0;
		u32 rank = hybridRank(from + other, length, from[i], run & 1);
		to[pair + i - run * width + rank] = from[i];
	}
	barrier();
}

/* Whether a bucket has to be merged further, and the last copy to sorted. */
FN bool hybridMore(const Hybrid &p, u32 bucket, u32 width) { return width < p.starts[bucket + 1] - p.starts[bucket]; }

FN void hybridSettle(const Hybrid &p, u32 bucket, bool even) {
	u32 start = p.starts[bucket], end = p.starts[bucket + 1];
	if (!even)
		for (u32 i = start + thread(); i < end; i += threads())
			p.sorted[i] = p.keys[i];
	barrier();
}
