// Defines some of the runtime API itself, as programs that bring a runtime of their own do.
#include <stdio.h>

#define OWN(name) \
	__attribute__((noinline)) int name(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
OWN(__cudaRegisterFatBinary)
OWN(__cudaRegisterFunction)
OWN(__cudaUnregisterFatBinary)
__attribute__((visibility("hidden"))) OWN(cudaMalloc)

int main(void)
{
	if (__cudaRegisterFatBinary(1) + __cudaRegisterFunction(2) + __cudaUnregisterFatBinary(3) + cudaMalloc(4) != 14)
		return 1;
	puts("shim: PASS");
	return 0;
}
