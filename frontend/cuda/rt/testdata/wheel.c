// A stand-in for a library of a wheel (with -DLIBRARY), and a program that is linked with one and opens
// others by the names and paths in its arguments: it prints whose each is.
#include <stdio.h>

#ifdef LIBRARY
const char *whose(void) { return LIBRARY; }
#else
#include <dlfcn.h>

extern const char *whose(void);

int main(int argc, char **argv)
{
	printf("linked %s\n", whose());
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		const char *(*of)(void) = library ? (const char *(*)(void))dlsym(library, "whose") : NULL;
		printf("%s\n", of ? of() : "none");
	}
	return 0;
}
#endif
