// What the programs here share. Each prints NAME: PASS, or what went wrong.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define OK(call)                                                                                     \
	do {                                                                                         \
		cudaError_t e_ = (call);                                                             \
		if (e_ != cudaSuccess) {                                                             \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(e_)); \
			exit(1);                                                                     \
		}                                                                                    \
	} while (0)
#define REQUIRE(condition)                                                                           \
	do {                                                                                         \
		if (!(condition)) {                                                                  \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
			exit(1);                                                                     \
		}                                                                                    \
	} while (0)
