#include "matmul.h"

/* A block for each tile from first on. */
KERNEL matmul(const float *a, const float *b, float *c, u32 n, u32 first) {
	static __shared__ MatmulShared s;
	SHARED(s);
	matmulTile(a, b, c, n, first + block(), s);
}
