// Asks for what PVDRM lacks, as programs do that probe for it, and goes on without. With an
// argument it then fails: by that exit code, or by a signal where the argument is "abort".
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 801
#define INVALID_PTX 218

extern int cuInit(unsigned);
extern int cuCtxCreate_v2(void **, unsigned, int);
extern int cuModuleLoadData(void **, const char *);
extern int cuGreenCtxCreate(void *, void *, int, unsigned);

static const char ptx[] = ".version 8.6\n.target sm_100a\n.address_size 64\n"
			  ".visible .entry k()\n{\n.reg .b32 %r<2>;\ntcgen05.wait::ld.sync.aligned;\nret;\n}\n";

#define REQUIRE(cond)                                                              \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #cond); \
			return 1;                                                  \
		}                                                                  \
	} while (0)

int main(int argc, char **argv)
{
	void *context, *module;
	REQUIRE(cuInit(0) == 0 && cuCtxCreate_v2(&context, 0, 0) == 0);
	for (int i = 0; i < 1000; i++)
		REQUIRE(cuGreenCtxCreate(NULL, NULL, 0, 0) == NOT_SUPPORTED);
	REQUIRE(cuModuleLoadData(&module, ptx) == INVALID_PTX);
	void *runtime = dlopen("libcudart.so.12", RTLD_NOW);
	REQUIRE(runtime != NULL);
	int (*lacking)(int) = (int (*)(int))dlsym(runtime, "cudaDeviceUnregisterAsyncNotification");
	REQUIRE(lacking != NULL && lacking(0) == NOT_SUPPORTED);
	if (argc > 1 && strcmp(argv[1], "abort") == 0)
		abort();
	puts("lacks: PASS");
	return argc > 1 ? atoi(argv[1]) : 0;
}
