// Functions of the program with names of the runtime API stay the program's, whether
// the static runtime is in it or not.

int own(void);

__attribute__((noinline)) static int cudaFree(void *p)
{
	__asm__ volatile("" : "+r"(p));
	return p ? 42 : 41;
}

__attribute__((noinline, visibility("hidden"))) int cudaOfTheProgram(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((visibility("hidden"))) int __cudaRegisterLinkedBinary_83c17b5f_9_common_cu_9f9d71b4(int x);
__attribute__((visibility("hidden"))) int __cudaUnregisterBinaryUtil(int x);

int own(void)
{
	static int here;
	return cudaFree(&here) == 42 && cudaOfTheProgram(1) == 2 && __cudaRegisterLinkedBinary_83c17b5f_9_common_cu_9f9d71b4(1) == 1000005 &&
	       __cudaUnregisterBinaryUtil(1) == 1000006;
}
