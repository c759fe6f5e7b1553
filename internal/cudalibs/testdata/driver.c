// Stands in for libcuda.so.1: prints the words of each call, and refuses the first one, as a driver does
// before cuInit.
#include <stdint.h>
#include <stdio.h>

static int ready, current;

int cuInit(unsigned flags) { return ready = 1, (int)flags; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &ready, device; }
int cuCtxSetCurrent(void *context) { return current = context != 0, 0; }

int cuPvdrmLibraryCall(uint64_t *words)
{
	if (words[1] == 0x77)
		return 500; // without an answer, as for a function of another version
	if (!ready)
		return 3;
	if (!current)
		return 201;
	printf("%d:", (int)words[0]);
	for (int i = 1; i < 25; i++)
		printf(" %llx", (unsigned long long)words[i]);
	printf("\n");
	if (words[1] == 0xbad)
		return 999; // without an answer
	words[0] = 0x123456789;
	words[39] = 1;
	return 0;
}
