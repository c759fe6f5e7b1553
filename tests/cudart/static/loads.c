// Loads libraries that have the static runtime in them, runs each one's main, and
// unloads it, twice.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	for (int i = 0; i < 2; i++)
		for (int k = 1; k < argc; k++) {
			void *library = dlopen(argv[k], RTLD_NOW);
			int (*run)(void) = library ? (int (*)(void))dlsym(library, "library_main") : NULL;
			if (!run) {
				fprintf(stderr, "%s: %s\n", argv[k], dlerror());
				return 1;
			}
			if (run() || dlclose(library))
				return 1;
		}
	puts("loads: PASS");
	return 0;
}
