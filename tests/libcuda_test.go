package tests

import (
	"bufio"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend"
	"pvdrm/frontend/cuda/capi"
	"pvdrm/gpu/softgpu"
)

// libcudaDir has libcuda.so.1, in lib beside the pvdrm of `built`.
var libcudaDir = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "lib")
	if out, err := exec.Command("../scripts/libcuda.sh", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building libcuda.so.1: %w\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "libcuda.so.1")); err != nil {
		return "", fmt.Errorf("these tests need a C compiler (`make deps` with PVDRM_DEPS=test installs it): %w", err)
	}
	return dir, nil
})

// clients compiles the C programs once, and returns their directory and names.
var clients = sync.OnceValues(func() (dir clientDir, err error) {
	lib, err := libcudaDir()
	if err != nil {
		return dir, err
	}
	dir.path = filepath.Join(filepath.Dir(lib), "clients")
	if err := os.Mkdir(dir.path, 0o755); err != nil {
		return dir, err
	}
	for _, pattern := range []string{"../examples/cuda/*.c", "clients/*.c"} {
		sources, err := filepath.Glob(pattern)
		if err != nil {
			return dir, err
		}
		for _, src := range sources {
			name := strings.TrimSuffix(filepath.Base(src), ".c")
			out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../examples/cuda",
				"-o", filepath.Join(dir.path, name), src, "-L"+lib, "-lcuda", "-lpthread", "-ldl").CombinedOutput()
			if err != nil {
				return dir, fmt.Errorf("compiling %s: %w\n%s", src, err, out)
			}
			if name != "gone" { // which has a test of its own
				dir.names = append(dir.names, name)
			}
		}
	}
	return dir, nil
})

type clientDir struct {
	path  string
	names []string
}

// client prepares a C program to run as a local guest.
func (h *host) client(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	dir, err := clients()
	require.NoError(t, err)
	return h.program(t, filepath.Join(dir.path, name))
}

// program prepares a file to run as a local guest.
func (h *host) program(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	lib, err := libcudaDir()
	require.NoError(t, err)
	file, err = filepath.Abs(file)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), file)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, frontend.SocketEnv+"="+h.socket, capi.LogEnv+"=errors")
	return cmd
}

func TestCProgramsAsLocalGuests(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	require.Greater(t, len(dir.names), 7)
	for _, name := range dir.names {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, softgpu.Config{})
			out, err := h.client(t, name).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), name+": PASS\n", "it is to use all that it asks the device for")
		})
	}
}

// compiledElsewhere is programs that were compiled against NVIDIA's cuda.h, by the
// name that they print: testdata/cuda_h/README.md says how.
var compiledElsewhere = map[string]string{
	"vector_add-12.6": "vector_add", "vector_add-12.6-per-thread": "vector_add", "streams-12.6": "streams", "legacy_launch-12.6": "legacy_launch",
}

func TestProgramsCompiledElsewhere(t *testing.T) {
	for file, name := range compiledElsewhere {
		t.Run(file, func(t *testing.T) {
			cmd := startHost(t, softgpu.Config{}).program(t, filepath.Join("testdata/cuda_h", file))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), name+": PASS")
		})
	}
}

// inMachines are the C programs that use what a machine does in another way than a local guest: memory of the program that
// the device uses, memory and objects that several processes share, words in memory, forks, files, ends of threads.
var inMachines = []string{"vector_add", "streams", "atexit", "forks", "ipc", "lacks", "managed", "peers", "registered", "shareable", "shared",
	"sharedfile", "sharedpool", "threads", "virtual_memory", "words"}

// cProgramsInMachine runs inMachines, and all C programs in make test-long: TestCProgramsAsLocalGuests has all.
func cProgramsInMachine(t *testing.T) inMachine {
	dir, err := clients()
	require.NoError(t, err)
	require.Subset(t, dir.names, inMachines)
	names := slices.DeleteFunc(slices.Clone(dir.names), func(name string) bool { return name == "devices" }) // see devicesInMachine
	if !long {
		names = inMachines
	}
	// At the end of the script the first four texts are said: those of lacks, where that runs first.
	programs := append([]string{"lacks"}, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "lacks" })...)
	run := inMachine{name: "c"}
	for _, name := range programs {
		run.files = append(run.files, filepath.Join(dir.path, name))
	}
	elsewhere := slices.Sorted(maps.Keys(compiledElsewhere))
	for _, name := range elsewhere {
		run.files = append(run.files, filepath.Join("testdata/cuda_h", name))
	}
	run.script = oneByOne(append(programs, elsewhere...)...)
	run.check = func(t *testing.T, code int, out string) {
		require.Zero(t, code, out)
		for _, name := range names {
			require.Contains(t, out, "run "+name+"\n")
			require.Contains(t, out, name+": PASS")
		}
		require.NotContains(t, out, "(the device has no", "clients are to use all that they ask the device for")
		for file, name := range compiledElsewhere {
			_, after, ran := strings.Cut(out, "run "+file+"\n")
			require.True(t, ran, "%s in %s", file, out)
			before, _, _ := strings.Cut(after, "run ")
			require.Contains(t, before, name+": PASS", file)
		}
	}
	return run
}

func TestRunFindsLibcuda(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	code, out := start(t, "run", "--", filepath.Join(dir.path, "vector_add")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "vector_add: PASS")
}

// What a C program does can be recorded, and made again.
func TestTraceOfACProgram(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "trace")
	code, out := start(t, "trace", "record", "-o", file, "--", filepath.Join(dir.path, "vector_add")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "vector_add: PASS")
	code, out = start(t, "trace", "replay", file).wait(t)
	require.Zero(t, code, out)
}

func TestFilesForTheGuest(t *testing.T) {
	for want, args := range map[string][]string{
		"no such file":       {"up", "--image", "debian", "--", "./no-such-program"},
		"is no regular file": {"up", "--copy", t.TempDir(), "--", "true"},
		"the same name":      {"up", "--copy", "libcuda_test.go", "--copy", "../tests/libcuda_test.go", "--", "true"},
		"unknown image":      {"up", "--image", "windows", "--", "true"},
	} {
		_, err := libcudaDir()
		require.NoError(t, err)
		code, out := start(t, args...).wait(t)
		require.NotZero(t, code)
		require.Contains(t, out, want)
	}
}

func TestCProgramWhoseBackendIsGone(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	cmd := h.client(t, "gone")
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	require.True(t, lines.Scan())
	require.Equal(t, "running", lines.Text())
	require.NoError(t, h.stop())
	require.True(t, lines.Scan())
	require.Equal(t, "gone: PASS", lines.Text())
	require.NoError(t, cmd.Wait())
}

// The library of Go that libcuda.so.1 loads at the first call may be missing, no
// library, or of another build. The program is told so, with an error and in words.
func TestLibraryOfAnotherInstallation(t *testing.T) {
	lib, err := libcudaDir()
	require.NoError(t, err)
	const name = "libpvdrm-cuda.so"
	other := filepath.Join(t.TempDir(), "other.c")
	require.NoError(t, os.WriteFile(other, []byte("int pvdrmStart(void *p) { return p == 0; }\nvoid pvdrmCall(void) {}\nvoid pvdrmThreadEnd(void) {}\n"), 0o644))
	for what, c := range map[string]struct {
		put  func(file string)
		says string
	}{
		"missing":    {func(string) {}, "No such file"},
		"no library": {func(file string) { require.NoError(t, os.WriteFile(file, []byte("text"), 0o644)) }, "file too short"},
		"another": {func(file string) {
			out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", file, other).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}, "another version of PVDRM"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			b, err := os.ReadFile(filepath.Join(lib, "libcuda.so.1"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "libcuda.so.1"), b, 0o644))
			c.put(filepath.Join(dir, name))
			clients, err := clients()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), filepath.Join(clients.path, "vector_add"))
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "libcuda: cannot load "+filepath.Join(dir, name))
			require.Contains(t, string(out), c.says)
			require.Contains(t, string(out), "install it beside libcuda.so.1")
			require.Contains(t, string(out), "cuInit(0): ? (303)") // CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
		})
	}
}

// The library exports what its table and so its documentation list, and nothing else.
func TestExportsOfLibcuda(t *testing.T) {
	dir, err := libcudaDir()
	require.NoError(t, err)
	f, err := elf.Open(filepath.Join(dir, "libcuda.so.1"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	name, err := f.DynString(elf.DT_SONAME)
	require.NoError(t, err)
	require.Equal(t, []string{"libcuda.so.1"}, name)
	syms, err := f.DynamicSymbols()
	require.NoError(t, err)
	var got, want []string
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) == elf.STB_GLOBAL {
			require.Equal(t, elf.STT_FUNC, elf.ST_TYPE(s.Info), s.Name)
			got = append(got, s.Name)
		}
	}
	for _, s := range capi.Symbols() {
		if s.Exported() {
			want = append(want, s.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}
