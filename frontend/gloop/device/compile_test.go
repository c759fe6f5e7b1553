package device_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// compile compiles a kernel for a GPU with clang, and returns what it says.
func compile(t *testing.T, text string) (string, error) {
	var clang string
	for _, name := range []string{"clang-16", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			clang = path
			break
		}
	}
	if clang == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no clang")
		}
		t.Skip("needs clang (Debian's package of that name)")
	}
	file := filepath.Join(t.TempDir(), "kernel.cu")
	require.NoError(t, os.WriteFile(file, []byte("#include \"gloop.h\"\n"+text), 0o600))
	out, err := exec.Command(clang, "-x", "cuda", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib", "--cuda-device-only",
		"-Xclang", "-target-feature", "-Xclang", "+ptx63", "-std=c++17", "-I.", "-fsyntax-only", file).CombinedOutput()
	return string(out), err
}

// What a callback must not capture is an error of the compiler.
func TestCallbacksAreChecked(t *testing.T) {
	const kernel = `
struct Words { unsigned v[N]; };
struct Deep { Deep(const Deep &); int x; };
extern "C" __global__ void k(gloop::Launch launch) {
	gloop::run(launch, [=](gloop::Loop &loop) {
		CAPTURE;
		gloop::loop::postTask(loop, [v](gloop::Loop &) {});
	});
}`
	for _, tc := range []struct{ define, want string }{
		{define: "#define N 128\n#define CAPTURE Words v"},
		{define: "#define N 129\n#define CAPTURE Words v", want: "captures more than 512 bytes"},
		{define: "#define N 1\n#define CAPTURE struct alignas(32) { int x; } v", want: "aligned to more than 16 bytes"},
		{define: "#define N 1\n#define CAPTURE extern __device__ Deep &u; auto &v = u", want: "more than plain data"},
	} {
		out, err := compile(t, tc.define+kernel)
		if tc.want == "" {
			require.NoError(t, err, out)
			continue
		}
		require.Error(t, err, tc.define)
		require.Contains(t, out, tc.want)
	}
}
