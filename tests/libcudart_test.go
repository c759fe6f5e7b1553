package tests

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"pvdrm/frontend"
	"pvdrm/frontend/cuda/capi"
	"pvdrm/frontend/cuda/rt"
	"pvdrm/gpu/softgpu"
)

// runtimeVersions are the endings of libcudart.so.
var runtimeVersions = []string{"11.0", "12", "13"}

// majorOf is the version for the C preprocessor.
func majorOf(version string) string { return strings.TrimSuffix(version, ".0") }

// ofNvcc is what nvcc 13.0 made of cudart/testdata/basic.cu with -cudart shared:
// with PTX only, and with machine code beside it in a compressed fatbin.
var ofNvcc = []string{"basic-shared", "basic-both"}

// printed is what they print, as on a GPU of NVIDIA's with the driver of NVIDIA's.
const printed = `devices 1 warp 32
hello 7 from 0
hello 7 from 1
bad launch: cudaErrorInvalidValue
ptx 1 blocks>0 1
verified
`

// runtimeClients has the programs of nvcc, and the C programs of tests/cudart
// compiled for each version: works11.0, works12 …
var runtimeClients = sync.OnceValues(func() (dir string, err error) {
	lib, err := libcudaDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(lib), "cudart")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range ofNvcc {
		if err := unpackProgram(filepath.Join("cudart/testdata", name+".xz"), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	sources, err := filepath.Glob("cudart/*.c")
	if err != nil {
		return "", err
	}
	for _, src := range sources {
		for _, v := range runtimeVersions {
			name := strings.TrimSuffix(filepath.Base(src), ".c") + v
			out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-DMAJOR="+majorOf(v), "-o", filepath.Join(dir, name), src,
				filepath.Join(lib, "libcudart.so."+v), "-Wl,-rpath-link,"+lib, "-lpthread", "-ldl").CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("compiling %s: %w\n%s", src, err, out)
			}
		}
	}
	return dir, nil
})

func unpackProgram(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	r, err := xz.NewReader(f)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// runtimeClient runs a program as a local guest and returns what it printed.
func (h *host) runtimeClient(t *testing.T, name string, args ...string) string {
	t.Helper()
	dir, err := runtimeClients()
	require.NoError(t, err)
	lib, err := libcudaDir()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, frontend.SocketEnv+"="+h.socket)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	return string(out)
}

func TestProgramsOfNvccAsLocalGuests(t *testing.T) {
	for _, name := range ofNvcc {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, printed, startHost(t, softgpu.Config{}).runtimeClient(t, name))
		})
	}
}

func TestRuntimeABI(t *testing.T) {
	for _, v := range runtimeVersions {
		for _, name := range []string{"works", "refuses", "textures", "moves"} {
			t.Run(name+v, func(t *testing.T) {
				require.Contains(t, startHost(t, softgpu.Config{}).runtimeClient(t, name+v), name+": PASS")
			})
		}
	}
}

// Whatever a program calls the runtime API with, it goes on.
func TestRuntimeIsCalledWithAnything(t *testing.T) {
	// Not those that call what they are given, and those whose arguments nvcc makes.
	names := slices.DeleteFunc(rt.Names(), func(n string) bool {
		return strings.HasPrefix(n, "__") || strings.Contains(n, "LaunchHostFunc") || strings.Contains(n, "AddCallback") || n == "cudaCreateChannelDesc"
	})
	require.Greater(t, len(names), 400)
	for _, v := range runtimeVersions {
		t.Run(v, func(t *testing.T) {
			require.Contains(t, startHost(t, softgpu.Config{}).runtimeClient(t, "anything"+v, names...), "anything: PASS")
		})
	}
}

// runtimeInMachine runs programs of nvcc and of the runtime's versions.
func runtimeInMachine(t *testing.T) inMachine {
	dir, err := runtimeClients()
	require.NoError(t, err)
	run := inMachine{name: "runtime"}
	names := append(slices.Clone(ofNvcc), "works11.0", "works12", "works13", "refuses13")
	for _, name := range names {
		run.files = append(run.files, filepath.Join(dir, name))
	}
	run.script = "export CUDA_VISIBLE_DEVICES=0; " + oneByOne(names...) // they expect one
	run.check = func(t *testing.T, code int, out string) {
		require.Zero(t, code, out)
		require.Equal(t, len(ofNvcc), strings.Count(out, printed), out)
		require.Equal(t, 3, strings.Count(out, "works: PASS\n"))
		require.Contains(t, out, "refuses: PASS\n")
	}
	return run
}

// pvdrm run finds the libraries, and keeps those of the user.
func TestRunFindsTheRuntime(t *testing.T) {
	dir, err := runtimeClients()
	require.NoError(t, err)
	code, out := start(t, "run", "--", filepath.Join(dir, ofNvcc[0])).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "verified\n")
	t.Setenv("LD_LIBRARY_PATH", "/of/the/user:/too")
	code, out = start(t, "run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH").wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "lib:/of/the/user:/too\n")
}

// A program with NVIDIA's own runtime in it asks for private tables, and it is told
// once what to do about that.
func TestPrivateTablesAreExplained(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	cmd := h.client(t, "tables")
	cmd.Env = append(cmd.Env, capi.LogEnv+"=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 1, strings.Count(string(out), "nvcc -cudart shared"), "%s", out)
	require.Contains(t, string(out), "the program "+cmd.Path+" has")
	// It may be a library that asks.
	cmd = h.staticClient(t, "loads", "./libasks.so")
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 1, strings.Count(string(out), "nvcc -cudart shared"), "%s", out)
	require.Contains(t, string(out), "the library "+filepath.Join(cmd.Dir, "libasks.so")+" has")
}

// The libraries export what the table lists, by the version that nvcc's programs
// ask for, and need no other library of CUDA's than the driver.
func TestExportsOfLibcudart(t *testing.T) {
	dir, err := libcudaDir()
	require.NoError(t, err)
	for _, v := range runtimeVersions {
		name := "libcudart.so." + v
		f, err := elf.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		soname, err := f.DynString(elf.DT_SONAME)
		require.NoError(t, err)
		require.Equal(t, []string{name}, soname)
		needed, err := f.DynString(elf.DT_NEEDED)
		require.NoError(t, err)
		require.Contains(t, needed, "libcuda.so.1")
		syms, err := f.DynamicSymbols()
		require.NoError(t, err)
		var got []string
		for _, s := range syms {
			if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
				continue
			}
			require.Equal(t, name, s.Version, s.Name)
			got = append(got, s.Name)
		}
		slices.Sort(got)
		require.Equal(t, rt.Names(), got)
		require.NoError(t, f.Close())
	}
}
