/*
 * img: finds for each query image the first image of a database that is close
 * enough: whose sum of squared differences is below a threshold.
 */
#pragma once
#include "base.h"

#define IMG_BYTES 1024  /* of an image: 32 x 32 */
#define IMG_NONE 0xffffffffu

/* A thread's part of the difference of two images, four bytes at a time. */
FN u32 imgPart(const u32 *a, const u32 *b, u32 lane) {
	u32 sum = 0;
	for (u32 i = lane; i < IMG_BYTES / 4; i += 32)
		for (u32 k = 0; k < 32; k += 8) {
			int d = (int)(a[i] >> k & 255) - (int)(b[i] >> k & 255);
			sum += (u32)(d * d);
		}
	return sum;
}

/* Warps compare an image with n of the database, of which the first has number first. */
FN void imgMatch(const u32 *query, const u32 *database, u32 first, u32 n, u32 threshold, u32 *found) {
	for (u32 i = thread() / 32; i < n; i += threads() / 32) {
		u32 sum = imgPart(query, database + i * (IMG_BYTES / 4), thread() % 32);
		for (int step = 16; step > 0; step /= 2)
			sum += shuffleDown(sum, step);
		if (thread() % 32 == 0 && sum < threshold)
			atomicLeast(found, first + i);
	}
}
