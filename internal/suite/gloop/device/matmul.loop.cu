#include "server.h"
#include "matmul.h"

static __shared__ MatmulShared s;

struct Matmul {
	u32 n;

	/* Computes the tiles from one on, and answers. */
	__device__ void tiles(Loop &loop, Server p, int server, int connection, u32 tile) const {
		SHARED(s);
		const float *a = (const float *)serverRoom(p);
		float *c = (float *)(serverRoom(p) + p.in);
		u32 all = n / MATMUL_TILE * (n / MATMUL_TILE);
		Matmul self = *this;
		while (tile < all) {
			matmulTile(a, a + n * n, c, n, tile++, s);
			if (tile < all && postTaskIfNecessary(loop, [=](Loop &loop) { self.tiles(loop, p, server, connection, tile); }))
				return;
		}
		barrier();
		serverSend(loop, p, server, connection, *this);
	}

	__device__ void start(Loop &loop, Server p, int server, int connection) const { tiles(loop, p, server, connection, 0); }
};

KERNEL matmul(gloop::Launch launch, Server p, u32 n) {
	gloop::run(launch, [=](Loop &loop) { serve(loop, p, Matmul{n}); });
}
