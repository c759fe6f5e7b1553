// stubs NAME ...: opens libraries, and calls cublasCreate_v2 of each. With WHEEL it is such a library.
#ifdef WHEEL
int cublasCreate_v2(void **handle);
int cublasCreate_v2(void **handle)
{
	(void)handle;
	return 77;
}
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int n, char **name)
{
	for (int i = 1; i < n; i++) {
		void *library = dlopen(name[i], RTLD_NOW | RTLD_LOCAL), *handle = 0;
		int (*create)(void **) = library ? (int (*)(void **))dlsym(library, "cublasCreate_v2") : 0;
		if (create)
			printf("%d: cublasCreate_v2 = %d\n", i - 1, create(&handle));
		else
			printf("%d: no library\n", i - 1);
	}
	return 0;
}
#endif
