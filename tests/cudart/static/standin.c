// Stands in for NVIDIA's static CUDA runtime: functions of its names, hidden as its
// are, that end the program. Calls must be led to PVDRM's libcudart before.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn, noinline)) static void reached(const char *name)
{
	fprintf(stderr, "%s of the static runtime was reached\n", name);
	exit(3);
}

// The names by which versions are told apart.
#if MAJOR != 12
#define cudaGetDeviceProperties_v2 only_of_12
#endif
#if MAJOR != 11
#define cudaBindTexture only_of_11
#endif

#define cudaFuncGetName moved // behind the next function, which so lies within the runtime

#define NAME(name) \
	__attribute__((visibility("hidden"))) void name(void) { reached(#name); }
#include "../../../frontend/cuda/rt/static/names.def"

// nvcc makes such a function for each unit of -rdc=true: the program's, although its name looks like the API's.
__attribute__((noinline, visibility("hidden"))) int __cudaRegisterLinkedBinary_83c17b5f_9_common_cu_9f9d71b4(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 1000003 + 2; // long enough for a jump
}

__attribute__((noinline, visibility("hidden"))) int __cudaUnregisterBinaryUtil(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 1000003 + 3;
}

#undef cudaFuncGetName
NAME(cudaFuncGetName)
