package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pvdrm/frontend/cuda/rt"
	"pvdrm/guest-image/guestinit"
)

// libcuda is the name under which C programs look for the CUDA driver.
const libcuda = "libcuda.so.1"

// libraries are what programs of CUDA look for: the driver, with the part of it that
// it loads itself, the runtime of each major version, and what leads the calls of a
// runtime within programs to these; and the management library, in two parts as the driver.
var libraries = []string{libcuda, "libpvdrm-cuda.so", "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13", rt.StaticLibrary,
	"libnvidia-ml.so.1", "libpvdrm-nvml.so"}

// libgloop runs GLoop programs of C. It is there if there was a C++ compiler.
const libgloop = "libgloop.so"

// imageLibraries lists the files of a directory with our libraries that go into images.
func imageLibraries(dir string) (files []string, err error) {
	for _, name := range libraries {
		files = append(files, filepath.Join(dir, name))
	}
	file := filepath.Join(dir, libgloop)
	_, err = os.Stat(file)
	switch {
	case err == nil:
		return append(files, file), nil
	case errors.Is(err, os.ErrNotExist):
		return files, nil
	}
	return nil, err
}

// stubLibraries lists PVDRM's libraries of the names of cuBLAS, cuDNN and others in a directory with our libraries.
func stubLibraries(dir string) ([]string, error) {
	dir = filepath.Join(dir, guestinit.StubsDir)
	files, err := filepath.Glob(filepath.Join(dir, "*.so.*"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("--%s: there are no libraries for guests in %s: run `make build` again", cudaLibsFlag, dir)
	}
	return files, err
}

// errNoLibcuda says how to get one.
var errNoLibcuda = fmt.Errorf("there is no %s in lib beside pvdrm: `make build` makes it where there is a C compiler (on Debian: apt-get install gcc libc6-dev)", libcuda)

// libraryDir is the directory with our libcuda.so.1 and libcudart.so: lib beside pvdrm, as "make
// build" leaves it, or ../lib/pvdrm of an installed prefix.
func libraryDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		self = target
	}
	for _, dir := range []string{"lib", "../lib/pvdrm"} {
		dir = filepath.Join(filepath.Dir(self), dir)
		if st, err := os.Stat(filepath.Join(dir, libcuda)); err == nil && st.Mode().IsRegular() {
			return dir, nil
		}
	}
	return "", errNoLibcuda
}

// withLibcuda returns an environment in which programs find our libcuda.so.1 and
// libcudart.so first, also those that have a static CUDA runtime in them, and what they
// compile at run time has PTX, if the libraries are there; other programs need none.
func withLibcuda(env []string) ([]string, error) {
	dir, err := libraryDir()
	if errors.Is(err, errNoLibcuda) {
		return env, nil
	}
	if err != nil {
		return nil, err
	}
	env = rt.WithNCCL(rt.WithTriton(rt.WithCompilers(rt.WithStatic(env, filepath.Join(dir, rt.StaticLibrary))), dir))
	const name = "LD_LIBRARY_PATH"
	if old := os.Getenv(name); old != "" {
		dir += string(os.PathListSeparator) + old
	}
	// The last one counts.
	return append(env, name+"="+dir), nil
}
