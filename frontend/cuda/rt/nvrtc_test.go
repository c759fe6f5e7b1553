package rt

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gcc compiles into the folder of TestMain, and returns the path.
func gcc(t *testing.T, out string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		require.Empty(t, os.Getenv("CI"), err)
		t.Skip("no C compiler")
	}
	path := filepath.Join(folder, out)
	text, err := exec.Command("gcc", append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	return path
}

// nvrtc compiles a stand-in for libnvrtc.so.
func nvrtc(t *testing.T, name string, args ...string) string {
	t.Helper()
	return gcc(t, name, append([]string{"-shared", "-fPIC", "-DLIBRARY", "testdata/nvrtc.c"}, args...)...)
}

// What is compiled at run time for a real architecture gets PTX: by programs that are linked with NVRTC,
// with and without bindings at the start, and by those that open it; and what nvJitLink links, by each
// name of its function.
func TestLineInformationOfNVRTC(t *testing.T) {
	const got = "2 -arch=sm_75 -lineinfo\n4 --gpu-architecture sm_90a -G1 -lineinfo\n3 --gpu-architecture=sm_75 -DX -lineinfo\n" +
		"2 -arch=sm_75 -lineinfo\n2 -arch=sm_75 --device-debug\n2 -arch=compute_75 -DA=sm_75\n2 -arch=sm_75 NULL\n0\n-1\n"
	auditor := gcc(t, StaticLibrary, "-fPIC", "-shared", "-pthread", "static/audit.c", "static/runtime.c", "static/nvrtc.c", "static/search.c", "-Wl,-z,defs")
	const linked = "3 -arch=sm_90 -lto -lineinfo\n3 -arch=sm_90 -lto -ptx\n2 -arch=sm_90 -g\n"
	want := strings.Repeat(got, 3) + linked
	for _, version := range []string{"10", "20"} {
		want += strings.NewReplacer("3 -", version+"3 -", "2 -", version+"2 -").Replace(linked)
	}
	want += strings.ReplaceAll(linked, "3 -arch=sm_90 -lto -lineinfo", "2 -arch=sm_90 -lto") + "nvrtc: PASS\n" // of another library
	opened := nvrtc(t, "libnvrtc-1a2b.so.12")
	linker := nvrtc(t, "libnvJitLink.so.13")
	bound := nvrtc(t, "libnvrtc.so.12", "-Wl,-z,relro,-z,now", "-fcf-protection=full")
	for name, flag := range map[string]string{"nvrtc": "-Wl,-z,lazy", "nvrtc-now": "-Wl,-z,now"} {
		program := gcc(t, name, "testdata/nvrtc.c", bound, "-ldl", flag)
		cmd := exec.CommandContext(t.Context(), program, opened, linker)
		cmd.Env = WithStatic(os.Environ(), auditor)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, string(out), name)
	}
}

// A damaged libnvrtc.so is read within its bytes.
func TestNVRTCInDamagedFiles(t *testing.T) {
	library := nvrtc(t, "libnvrtc.so.11.2")
	reader := gcc(t, "exported", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-g", "testdata/exported.c", "static/runtime.c")
	b, err := os.ReadFile(library)
	require.NoError(t, err)
	f, err := elf.Open(library)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var places []int
	add := func(from, n int) {
		for i := range n {
			places = append(places, from+i)
		}
	}
	add(0, 64)
	add(int(binary.LittleEndian.Uint64(b[32:])), 56*len(f.Progs))
	for i, s := range f.Sections {
		if s.Type == elf.SHT_DYNSYM || s.Type == elf.SHT_STRTAB {
			add(int(binary.LittleEndian.Uint64(b[40:]))+64*i, 64)
			add(int(s.Offset), min(24*8, int(s.Size)))
		}
	}
	var lines strings.Builder
	fmt.Fprintln(&lines, len(b))
	for _, p := range places { // cut off there, and with the largest value
		fmt.Fprintln(&lines, p)
		fmt.Fprintln(&lines, len(b), p, 255)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		fmt.Fprintln(&lines, len(b), places[r.IntN(len(places))], r.IntN(256), places[r.IntN(len(places))], r.IntN(256))
	}
	cmd := exec.CommandContext(t.Context(), reader, library)
	cmd.Stdin = strings.NewReader(lines.String())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, strings.Count(lines.String(), "\n"), strings.Count(string(out), "\n"))
	require.True(t, strings.HasPrefix(string(out), "1\n"))
	require.Contains(t, string(out), "\n0\n") // some are refused
}
