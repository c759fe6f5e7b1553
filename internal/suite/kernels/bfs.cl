#include "pvdrm.h"

/* The vertex gets the next level's number if it was not reached before. Several
 * threads may do so at once; they all write the same. */
static inline void visit(__global const uint *first, __global const uint *edge, __global int *level,
			 __global uint *more, uint v, int next)
{
	uint end = first[v + 1];

#pragma unroll 1
	for (uint e = first[v]; e < end; e++) {
		uint w = edge[e];

		if (level[w] < 0) {
			level[w] = next;
			*more = 1;
		}
	}
}

/*
 * One step of a breadth-first search: from the vertices of level now to those of
 * level now + 1. Vertex v's edges lead to edge[first[v]] ... edge[first[v+1]-1];
 * level is -1 for what was not reached. Each thread looks at four vertices.
 */
__kernel void bfs_step(__global const uint *first, __global const uint *edge, __global int *level,
		       __global uint *more, uint n, int now)
{
	uint v = GX * 4;

	if (v >= n)
		return;

	int4 l = *(__global const int4 *)(level + v);

	if (l.x == now)
		visit(first, edge, level, more, v, now + 1);
	if (l.y == now)
		visit(first, edge, level, more, v + 1, now + 1);
	if (l.z == now)
		visit(first, edge, level, more, v + 2, now + 1);
	if (l.w == now)
		visit(first, edge, level, more, v + 3, now + 1);
}
