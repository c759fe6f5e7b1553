package direct

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

// driver is a libcuda.so.1 whose device memory is that of the process, and whose
// one kernel, madd, adds its matrices row by row; others are not found.
const driver = `
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int open_things; /* contexts, modules and memory; closing the last context checks it */
static int made(void **p, void *v) { if (!v) return 2; *p = v; open_things++; return 0; }
static int gone(void *p) { free(p); open_things--; return 0; }
int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *d, int n) { *d = n; return n > 1 ? 101 : 0; }
int cuCtxCreate_v2(void **c, unsigned flags, int d) { return flags || d ? 1 : made(c, malloc(1)); }
int cuCtxDestroy_v2(void *c) { gone(c); return open_things ? 999 : 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void **m, const char *s) { return strstr(s, ".entry") ? made(m, strdup(s)) : 218; }
int cuModuleUnload(void *m) { return gone(m); }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = m; return strcmp(name, "madd") ? 500 : 0; }
int cuMemAlloc_v2(void **p, size_t n) { return made(p, malloc(n)); }
int cuMemFree_v2(void *p) { return gone(p); }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { return flags ? 1 : made(p, malloc(n)); }
int cuMemFreeHost(void *p) { return gone(p); }
int cuMemcpyHtoD_v2(void *d, const void *s, size_t n) { memcpy(d, s, n); return 0; }
int cuMemcpyDtoH_v2(void *d, const void *s, size_t n) { memcpy(d, s, n); return 0; }
int cuMemcpyHtoDAsync_v2(void *d, const void *s, size_t n, void *q) { if (q) return 1; memcpy(d, s, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *d, const void *s, size_t n, void *q) { if (q) return 1; memcpy(d, s, n); return 0; }
int cuMemsetD32_v2(uint32_t *d, uint32_t v, size_t n) { while (n) d[--n] = v; return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *q, void **params, void **extra)
{
	struct { const uint32_t *a, *b; uint32_t *c; uint32_t width; } *p = extra[1];
	if (!f || gz != 1 || bz != 1 || shared || q || params || (size_t)extra[0] != 1 || (size_t)extra[2] != 2 ||
	    *(size_t *)extra[3] != 28 || extra[4])
		return 1;
	for (size_t i = 0; i < (size_t)gx * bx * gy * by * 4; i++)
		p->c[i] = p->a[i] + p->b[i];
	return 0;
}
`

// library compiles the driver.
func library(t *testing.T, source string) string {
	dir := t.TempDir()
	file, lib := filepath.Join(dir, "driver.c"), filepath.Join(dir, "driver.so")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", lib, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return lib
}

// The arguments of all calls arrive, and everything is given back, in failure too.
func TestPrograms(t *testing.T) {
	d, err := load(library(t, driver))
	require.NoError(t, err)
	for _, name := range []string{"nop", "cpy", "pincpy", "madd"} {
		res, err := suite.RunRaw(name, d.Opener(0), suite.Options{})
		require.NoError(t, err)
		require.True(t, res.Verified, "%s: %s", name, res.Error)
	}
	res, err := suite.RunRaw("bfs", d.Opener(0), suite.Options{})
	require.NoError(t, err)
	require.Contains(t, res.Error, "cuModuleGetFunction of bfs_step: CUDA error 500")
	_, err = d.Opener(2)()
	require.ErrorContains(t, err, "cuDeviceGet: CUDA error 101", "there are two")
	raw, err := d.Opener(0)()
	require.NoError(t, err)
	require.ErrorContains(t, raw.Load("none", []byte("no PTX")), "cuModuleLoadData: CUDA error 218")
	p, err := raw.Alloc(8)
	require.NoError(t, err)
	require.NoError(t, raw.Fill(p, 7, 2))
	got := make([]byte, 8)
	require.NoError(t, raw.Read(got, p, false))
	require.Equal(t, []byte{7, 0, 0, 0, 7, 0, 0, 0}, got)
	require.NoError(t, raw.Close())
}

func TestNoDriver(t *testing.T) {
	_, err := load("/nowhere/libcuda.so.1")
	require.ErrorContains(t, err, "no NVIDIA driver here")
	_, err = load(library(t, "int cuInit(unsigned f) { return f; }"))
	require.ErrorContains(t, err, "lacks cuDeviceGet")
}
