#include "pvdrm.h"

/* How steep an image of bytes is at each pixel, up to 255. `in` has two more rows and columns than `out`. */
__kernel void sobel(__global const uchar *in, __global uchar *out, uint width, uint height)
{
	uint x = GX, y = GY, pitch = width + 2;

	if (x >= width || y >= height)
		return;

	__global const uchar *a = in + y * pitch + x, *b = a + pitch, *c = b + pitch;
	int across = a[2] + 2 * b[2] + c[2] - a[0] - 2 * b[0] - c[0];
	int down = c[0] + 2 * c[1] + c[2] - a[0] - 2 * a[1] - a[2];
	int steep = (across < 0 ? -across : across) + (down < 0 ? -down : down);

	out[y * width + x] = steep > 255 ? 255 : steep;
}
