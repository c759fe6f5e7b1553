#include "pvdrm.h"

/*
 * Speckle-reducing anisotropic diffusion of an image of `rows` x `cols`. One
 * iteration is: srad_sum over the region that shows only speckle, srad_scale,
 * srad_coefficient, srad_update. Beyond the edge lies a pixel like that at the
 * edge. In the kernels for the image, each thread makes a strip of STRIP pixels,
 * one below the other, and neighbours make neighbouring columns.
 */

#define STRIP 4
#define THREADS 256 /* of a block of srad_sum and srad_scale */

/* Brightness 0 ... 255 to the exponential scale on which speckle is noise that multiplies. */
__kernel void srad_extract(__global float *image, uint n, float inverse)
{
	uint i = GX;

	if (i < n)
		image[i] = EX2(image[i] * inverse * LOG2_E);
}

/* And back. */
__kernel void srad_compress(__global float *image, uint n, float scale)
{
	uint i = GX;

	if (i < n)
		image[i] = LG2(image[i]) * LN_2 * scale;
}

/* Adds up what the threads of a block hold in s; thread 0 gets the sum. */
static inline float2 block_sum(float2 s, __local float2 *sum)
{
	uint t = TX;

	sum[t] = s;
	for (uint reach = THREADS / 2; reach > 0; reach /= 2) {
		BARRIER();
		if (t < reach) {
			s += sum[t + reach];
			sum[t] = s;
		}
	}
	return s;
}

/* Sum and sum of squares over the first rows and columns of the image; one pair for each block. */
__kernel void srad_sum(__global const float *image, __global float2 *partial, uint pitch, uint rows,
		       uint cols)
{
	__local float2 sum[THREADS];
	float2 s = 0;

	SHARED(sum);

	for (uint y = BX; y < rows; y += NBX)
		for (uint x = TX; x < cols; x += THREADS) {
			float v = image[y * pitch + x];

			s.x += v;
			s.y += v * v;
		}
	s = block_sum(s, sum);
	if (TX == 0)
		partial[BX] = s;
}

/* One block turns the pairs into the speckle scale q, and leaves {q, 1 / (q * (1 + q))}. */
__kernel void srad_scale(__global const float2 *partial, uint parts, float n, __global float2 *scale)
{
	__local float2 sum[THREADS];
	float2 s = 0;

	SHARED(sum);

	for (uint i = TX; i < parts; i += THREADS)
		s += partial[i];
	s = block_sum(s, sum);
	if (TX == 0) {
		float mean = s.x / n;
		float q = (s.y / n - mean * mean) / (mean * mean);

		*scale = (float2)(q, 1.0f / (q * (1.0f + q)));
	}
}

static inline uint least(uint a, uint b)
{
	return a < b ? a : b;
}

/* The diffusion coefficient of each pixel: 1 where the image is even, 0 at edges. */
__kernel void srad_coefficient(__global const float *image, __global float *coefficient,
			       __global const float2 *scale, uint rows, uint cols)
{
	uint x = GX, y = GY * STRIP;

	if (x >= cols || y >= rows)
		return;

	uint west = x == 0 ? 0 : x - 1, east = x + 1 == cols ? x : x + 1;
	uint above = y == 0 ? 0 : y - 1;
	float2 q = *scale;
	float up = image[above * cols + x];
	float here = image[y * cols + x];

#pragma unroll
	for (uint r = 0; r < STRIP; r++) {
		__global const float *row = image + least(y + r, rows - 1) * cols;
		float down = image[least(y + r + 1, rows - 1) * cols + x];
		float n = up - here, s = down - here, w = row[west] - here, e = row[east] - here;
		float inverse = 1.0f / here;
		float gradient = (n * n + s * s + w * w + e * e) * inverse * inverse;
		float laplace = (n + s + w + e) * inverse;
		float d = 1.0f + 0.25f * laplace;
		float now = (0.5f * gradient - 0.0625f * laplace * laplace) / (d * d);
		float c = 1.0f / (1.0f + (now - q.x) * q.y);

		c = c < 0.0f ? 0.0f : c;
		c = c > 1.0f ? 1.0f : c;
		if (y + r < rows)
			coefficient[(y + r) * cols + x] = c;
		up = here;
		here = down;
	}
}

/* Moves each pixel towards its neighbours; a pixel's own coefficient holds to the
 * north and west, its neighbours' to the south and east. */
__kernel void srad_update(__global const float *from, __global float *to,
			  __global const float *coefficient, float quarter, uint rows, uint cols)
{
	uint x = GX, y = GY * STRIP;

	if (x >= cols || y >= rows)
		return;

	uint west = x == 0 ? 0 : x - 1, east = x + 1 == cols ? x : x + 1;
	uint above = y == 0 ? 0 : y - 1;
	float up = from[above * cols + x];
	float here = from[y * cols + x];
	float c = coefficient[y * cols + x];

#pragma unroll
	for (uint r = 0; r < STRIP; r++) {
		uint below = least(y + r + 1, rows - 1) * cols + x;
		uint row = least(y + r, rows - 1) * cols;
		float down = from[below];
		float csouth = coefficient[below];
		float ceast = coefficient[row + east];
		float flow = c * (up - here + from[row + west] - here) + csouth * (down - here) +
			     ceast * (from[row + east] - here);

		if (y + r < rows)
			to[(y + r) * cols + x] = here + quarter * flow;
		up = here;
		here = down;
		c = csouth;
	}
}
