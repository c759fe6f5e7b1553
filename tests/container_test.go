package tests

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// libraryPath is where the host's C libraries are.
const libraryPath = "/lib/x86_64-linux-gnu"

// withLibraries adds to files, by their paths in the image, the libraries that a program of the host
// needs, and its loader.
func withLibraries(t *testing.T, files map[string]string, program string) {
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	needed, err := f.ImportedLibraries()
	require.NoError(t, err)
	for _, name := range append(needed, "ld-linux-x86-64.so.2") {
		path := filepath.Join(libraryPath, name)
		if _, err := os.Stat(path); err != nil { // one of PVDRM's
			continue
		}
		if _, done := files[path]; !done {
			files[path] = path
			withLibraries(t, files, path)
		}
	}
}

// containerOf writes an OCI layout with files of the host.
func containerOf(t *testing.T, dir string, files map[string]string, config v1.Config) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for to, from := range files {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o755, Size: int64(len(text))}))
		_, err = w.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "/lib64", Linkname: libraryPath}))
	require.NoError(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, l)
	require.NoError(t, err)
	file, err := img.ConfigFile()
	require.NoError(t, err)
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", config
	img, err = mutate.ConfigFile(img, file)
	require.NoError(t, err)
	p, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(img))
}

// A machine has a container image as its root: the image's programs run in it, in the image's working
// directory and with its variables, on PVDRM's libcuda. The image itself stays as it is.
func TestContainerImageInAMachine(t *testing.T) {
	built, err := clients()
	require.NoError(t, err)
	program := filepath.Join(built.path, "vector_add")
	files := map[string]string{"/opt/bin/shell": "/bin/sh", "/opt/bin/cat": "/bin/cat", "/data/vector_add": program}
	libraries, err := libcudaDir()
	require.NoError(t, err)
	for _, f := range []string{"/bin/sh", "/bin/cat", program, filepath.Join(libraries, "libcuda.so.1")} {
		withLibraries(t, files, f)
	}
	dir := filepath.Join(t.TempDir(), "image")
	containerOf(t, dir, files, v1.Config{Env: []string{"PATH=/opt/bin", "GREETING=hello from the image"}, WorkingDir: "/data"})
	code, out := start(t, "up", "--image", "oci:"+dir, "--", "shell", "-ec",
		`./vector_add; echo "$GREETING" >written; cat written; gdev list >/dev/null; echo all done in $PWD`).wait(t)
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "PASS")
	require.Contains(t, out, "hello from the image")
	require.Contains(t, out, "all done in /data")
}
