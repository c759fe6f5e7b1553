package cmicro

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench/micro"
)

// driver is a libcuda.so.1 whose functions do nothing, and hand out memory where
// the program writes to it.
const driver = `
#include <stddef.h>
#include <stdlib.h>
#define NONE(name) int name(void) { return 0; }
NONE(cuInit) NONE(cuDeviceGet) NONE(cuCtxCreate_v2) NONE(cuModuleLoadData) NONE(cuModuleGetFunction) NONE(cuMemAlloc_v2)
NONE(cuLaunchKernel) NONE(cuCtxSynchronize) NONE(cuMemcpyHtoD_v2) NONE(cuMemcpyDtoH_v2) NONE(cuMemcpyHtoDAsync_v2)
NONE(cuGraphCreate) NONE(cuGraphAddKernelNode_v2) NONE(cuGraphInstantiateWithFlags) NONE(cuGraphLaunch)
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { (void)flags; *p = malloc(n); return *p ? 0 : 2; }
int cuCtxDestroy_v2(void *c) { (void)c; return DESTROY; }
`

// install compiles the driver and has programs find it.
func install(t *testing.T, destroy string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "driver.c")
	require.NoError(t, os.WriteFile(file, []byte(driver), 0o600))
	out, err := exec.Command("cc", "-shared", "-fPIC", "-DDESTROY="+destroy, "-o", filepath.Join(dir, "libcuda.so.1"), file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("LD_LIBRARY_PATH", dir)
}

// What it measures are micro-benchmarks that gdev has, too.
func TestRun(t *testing.T) {
	install(t, "0")
	results, err := Run(t.Context(), t.TempDir(), 0, time.Millisecond)
	require.NoError(t, err)
	known := map[string]bool{}
	for _, m := range micro.All() {
		known[m.Name] = true
	}
	var names []string
	for _, r := range results {
		require.True(t, known[r.Micro], r.Micro)
		require.GreaterOrEqual(t, r.NS, 0.0)
		names = append(names, r.Micro)
	}
	require.Equal(t, []string{"launch-sync", "launch-loop", "graph-sync", "copy-loop", "copy-64M"}, names)
}

func TestFailures(t *testing.T) {
	install(t, "999")
	_, err := Run(t.Context(), t.TempDir(), 0, 0)
	require.ErrorContains(t, err, "cuCtxDestroy_v2: CUDA error 999")
	t.Setenv("PATH", t.TempDir())
	_, err = Run(t.Context(), t.TempDir(), 0, 0)
	require.ErrorIs(t, err, ErrNoCompiler)
	require.ErrorContains(t, err, "apt install gcc")
	for _, out := range []string{"", "launch-sync\n", "launch-sync fast\n"} {
		_, err := parse([]byte(out))
		require.Error(t, err, out)
	}
}
