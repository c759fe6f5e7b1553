package tests

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend"
	"pvdrm/frontend/cuda/rt"
	"pvdrm/gpu/softgpu"
)

// staticClients compiles the programs of cudart/static: works.c with a stand-in for
// NVIDIA's static runtime, as a program (static12 …, with endbr64 at entries in static12-cet)
// and as a library (libstatic12.so), and what loads these.
var staticClients = sync.OnceValues(func() (dir string, err error) {
	lib, err := libcudaDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(lib), "static")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	gcc := func(out string, args ...string) {
		args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-builtin-declaration-mismatch", "-o", filepath.Join(dir, out)}, args...)
		if text, e := exec.Command("gcc", args...).CombinedOutput(); e != nil && err == nil {
			err = fmt.Errorf("compiling %s: %w\n%s", out, e, text)
		}
	}
	for _, v := range runtimeVersions {
		sources := []string{"-DSTATIC", "-DMAJOR=" + majorOf(v), "cudart/works.c", "cudart/static/standin.c", "cudart/static/own.c", "-lpthread", "-ldl"}
		gcc("static"+v, append(sources, "-fcf-protection=none")...)
		gcc("static"+v+"-cet", append(sources, "-fcf-protection=full")...)
		gcc("static"+v+"-fixed", append(sources, "-no-pie", "-fno-pie")...) // at a low address
		gcc("libstatic"+v+".so", append(sources, "-shared", "-fPIC", "-Dmain=library_main", "-DFORKS=0")...)
	}
	gcc("loads", "cudart/static/loads.c", "-ldl")
	gcc("linked", "cudart/static/linked.c", filepath.Join(dir, "libstatic12.so"), "-Wl,-rpath,"+dir, "-lpthread", "-ldl")
	gcc("libasks.so", "-shared", "-fPIC", "-Dmain=library_main", "-I../examples/cuda", "clients/tables.c", "-L"+lib, "-lcuda")
	gcc("shim", "cudart/static/shim.c")
	gcc("parse", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-g", "cudart/static/parse.c", "../frontend/cuda/rt/static/runtime.c")
	return dir, err
})

// staticClient prepares one of them to run as a local guest, with the environment of pvdrm run.
func (h *host) staticClient(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := staticClients()
	require.NoError(t, err)
	lib, err := libcudaDir()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	cmd.Dir = dir
	cmd.Env = rt.WithStatic(append(os.Environ(), "LD_LIBRARY_PATH="+lib, frontend.SocketEnv+"="+h.socket), filepath.Join(lib, rt.StaticLibrary))
	return cmd
}

func TestStaticRuntimeAsLocalGuest(t *testing.T) {
	for _, v := range runtimeVersions {
		for _, kind := range []string{"", "-cet", "-fixed"} {
			t.Run(v+kind, func(t *testing.T) {
				out, err := startHost(t, softgpu.Config{}).staticClient(t, "static"+v+kind).CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.Contains(t, string(out), "works: PASS")
			})
		}
	}
}

// Without the library the stand-in is what is called, so the tests above show that
// it is not.
func TestStandInIsReached(t *testing.T) {
	cmd := startHost(t, softgpu.Config{}).staticClient(t, "static12")
	cmd.Env = append(cmd.Env, "LD_AUDIT=")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "__cudaRegisterFatBinary of the static runtime was reached")
}

func TestStaticRuntimeInALibrary(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	out, err := h.staticClient(t, "linked").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "works: PASS")
	var libraries []string
	for _, v := range runtimeVersions {
		libraries = append(libraries, "./libstatic"+v+".so")
	}
	out, err = h.staticClient(t, "loads", libraries...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2*len(libraries), strings.Count(string(out), "works: PASS"), "%s", out)
	require.Contains(t, string(out), "loads: PASS")
}

// What defines some names itself is left alone.
func TestRuntimeOfTheProgramItself(t *testing.T) {
	out, err := startHost(t, softgpu.Config{}).staticClient(t, "shim").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "shim: PASS\n", string(out))
}

func TestRunLeadsTheStaticRuntime(t *testing.T) {
	dir, err := staticClients()
	require.NoError(t, err)
	code, out := start(t, "run", "--", filepath.Join(dir, "static12")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "works: PASS\n")
	// An auditor of the user's stays.
	t.Setenv("LD_AUDIT", "/of/the/user.so")
	code, out = start(t, "run", "--", "sh", "-c", "echo =$LD_AUDIT").wait(t)
	require.Zero(t, code, out)
	require.Regexp(t, `=/of/the/user\.so:/[^:]*lib/libpvdrm-static\.so\n`, out)
}

// staticRuntimeInMachine runs programs that have a runtime of their own.
func staticRuntimeInMachine(t *testing.T) inMachine {
	dir, err := staticClients()
	require.NoError(t, err)
	run := inMachine{name: "static"}
	var names []string
	for _, v := range runtimeVersions {
		names = append(names, "static"+v)
		run.files = append(run.files, filepath.Join(dir, "static"+v))
	}
	run.script = "export CUDA_VISIBLE_DEVICES=0; " + oneByOne(names...) // they expect one
	run.check = func(t *testing.T, code int, out string) {
		require.Zero(t, code, out)
		require.Equal(t, len(runtimeVersions), strings.Count(out, "works: PASS"), out)
	}
	return run
}

// The parser gets damaged files, under sanitizers, and whole ones.
func TestStaticRuntimeInDamagedFiles(t *testing.T) {
	dir, err := staticClients()
	require.NoError(t, err)
	for _, v := range runtimeVersions {
		file := filepath.Join(dir, "static"+v)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var lines strings.Builder
		fmt.Fprintln(&lines, len(b))
		places := importantBytes(t, b)
		for _, p := range places { // cut off there, and with the largest value
			fmt.Fprintln(&lines, p)
			fmt.Fprintln(&lines, len(b), p, 255)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			fmt.Fprint(&lines, len(b))
			for range 1 + r.IntN(4) {
				fmt.Fprint(&lines, " ", places[r.IntN(len(places))], " ", r.IntN(256))
			}
			fmt.Fprintln(&lines)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "parse"), file)
		cmd.Stdin = strings.NewReader(lines.String())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderr.String())
		var found, major, n int
		_, err = fmt.Sscan(string(out), &found, &major, &n)
		require.NoError(t, err)
		require.Equal(t, 1, found)
		require.Equal(t, majorOf(v), fmt.Sprint(major))
		require.GreaterOrEqual(t, n, len(rt.Names())-2)
		require.Equal(t, strings.Count(lines.String(), "\n"), strings.Count(string(out), "\n"))
		require.Contains(t, string(out), "\n0 0 0\n") // some are refused
	}
}

// importantBytes are the offsets of the headers of an ELF file, and of some symbols.
func importantBytes(t *testing.T, b []byte) []int {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	require.NoError(t, err)
	var all []int
	add := func(from, n int) {
		for i := from; i < from+n; i++ {
			all = append(all, i)
		}
	}
	add(0, 64)
	add(int(binary.LittleEndian.Uint64(b[32:])), 56*len(f.Progs))
	sections := int(binary.LittleEndian.Uint64(b[40:]))
	for i, s := range f.Sections {
		switch s.Type {
		case elf.SHT_SYMTAB:
			add(sections+64*i, 64)
			add(int(s.Offset), 24*8)
			add(int(s.Offset+s.Size)-24*8, 24*8)
		case elf.SHT_STRTAB:
			add(sections+64*i, 64)
			add(int(s.Offset+s.Size)-1, 1)
		}
	}
	return all
}
