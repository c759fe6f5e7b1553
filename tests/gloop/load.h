/* What the programs here share. */
#include "driver.h"
#include "gloop_host.h"

/* load loads a file of PTX and finds a kernel. */
static CUfunction load(const char *file, const char *name)
{
	static char ptx[1 << 20];
	CUmodule mod;
	CUfunction f;
	FILE *in = fopen(file, "r");
	REQUIRE(in);
	ptx[fread(ptx, 1, sizeof ptx - 1, in)] = 0;
	fclose(in);
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&f, mod, name));
	return f;
}
