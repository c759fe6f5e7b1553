// Which file the loader takes for a library of CUDA's: PVDRM's, where PVDRM has one of that name.
//
// LD_LIBRARY_PATH does not do it alone. PyTorch's libraries have an RPATH, which comes before it and leads to
// the libraries of NVIDIA's wheels; and programs (ctypes, cuda-pathfinder, JAX) open the files of wheels by
// their paths. The loader asks an auditor for each name before it looks anywhere, so both are led here.
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "runtime.h"

// Libraries that PVDRM may have in its directory, or below it in cuda-libs, by the beginning of their names. What
// is not there stays what the program asked for: the directory may be that of other libraries (/lib of a guest).
static const char *const replaced[] = {
	"libcuda", "libcudart", "libnvidia-ml",
	"libcublas", "libcublasLt", "libcudnn", "libcufft", "libcufftw", "libcurand",
	"libcusolver", "libcusolverMg", "libcusparse", "libcusparseLt",
};

enum { HASH = 8, LONGEST = 64 };

// hashed tells whether text begins with what tools that repair wheels put into the name of a library:
// a hyphen and eight hexadecimal digits, as in libcudart-9335f6a2.so.12.
static int hashed(const char *text) { return *text == '-' && strspn(text + 1, "0123456789abcdef") == HASH; }

// plain_name writes the name that a library of CUDA's has before a tool renames it, and returns 1, or 0 for
// other libraries.
static int plain_name(const char *file, char name[LONGEST])
{
	for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) {
		size_t n = strlen(replaced[i]);
		if (strncmp(file, replaced[i], n))
			continue;
		const char *rest = file + n + (hashed(file + n) ? 1 + HASH : 0);
		if (strncmp(rest, ".so", 3) || (rest[3] && rest[3] != '.') || n + strlen(rest) >= LONGEST)
			continue;
		memcpy(name, replaced[i], n);
		strcpy(name + n, rest);
		return 1;
	}
	return 0;
}

// Where the libraries lie, from the directory of this one; the stubs come last.
static const char *const below[] = {"", "cuda-libs/"};

const char *find_ours(const char *name, const char *directory, int stubs, char *path, size_t bytes)
{
	const char *slash = strrchr(name, '/'), *file = slash ? slash + 1 : name;
	char plain[LONGEST];
	if (!plain_name(file, plain))
		return NULL;
	for (size_t i = 0; i < (stubs ? 2 : 1); i++) {
		if (strlen(directory) + strlen(below[i]) + strlen(plain) >= bytes)
			continue;
		strcpy(path, directory);
		strcat(path, below[i]);
		strcat(path, plain);
		if (access(path, R_OK) == 0)
			return path;
	}
	return NULL;
}
