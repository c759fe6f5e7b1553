// Finds the driver as programs do that are not linked with it: dlopen, then every
// entry point by cuGetProcAddress. It needs no header and no library to build.
#include <dlfcn.h>
#include <stdio.h>

#define REQUIRE(cond)                                                              \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #cond); \
			return 1;                                                  \
		}                                                                  \
	} while (0)

typedef int (*get_proc)(const char *, void **, int, unsigned long long, int *);
typedef int (*lookup_first)(const char *, void **, int, unsigned long long);

int main(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *fn;
	int status, count = -1;
	REQUIRE(lib != NULL);
	lookup_first first = (lookup_first)dlsym(lib, "cuGetProcAddress");
	REQUIRE(first != NULL && first("cuGetProcAddress", &fn, 12000, 0) == 0);
	get_proc get = (get_proc)fn;
	REQUIRE(fn != (void *)first && get("cuInit", &fn, 12000, 0, &status) == 0 && status == 0);
	REQUIRE(((int (*)(unsigned))fn)(0) == 0);
	REQUIRE(get("cuDeviceGetCount", &fn, 12000, 0, &status) == 0);
	REQUIRE(((int (*)(int *))fn)(&count) == 0 && count == 1);
	puts("lookup: PASS");
	return 0;
}
