// Package clang is the native side of a comparison with the software GPU: the
// kernels of package suite in plain C, compiled by clang for this machine when
// they are needed, and run on all of its processors.
//
// The C code has threads of its own while there is a device; it is for one
// program at a time in a process.
package clang

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/suite"
)

//go:embed c/*.c c/*.h
var sources embed.FS

// Programs are those whose kernels there are in C: all that launch kernels.
var Programs = programs()

func programs() (names []string) {
	for _, b := range append(suite.All(), suite.Extra()...) {
		if b.Name != "nop" && b.Name != "cpy" && b.Name != "pincpy" {
			names = append(names, b.Name)
		}
	}
	return names
}

// Processors are the processors that code is compiled for, by the instructions that the software
// GPU uses: each has vectors as wide.
var Processors = map[ptxexec.ISA]string{ptxexec.AVX512: "x86-64-v4", ptxexec.AVX2: "x86-64-v3", ptxexec.Plain: "x86-64-v2"}

// Flags are those of the compiler.
func Flags(isa ptxexec.ISA) []string {
	return []string{"-O3", "-march=" + Processors[isa], "-fno-math-errno", "-std=c11", "-shared", "-fPIC", "-pthread"}
}

// Find looks for the compiler. The error says how to get one.
func Find() (path string, err error) {
	path, err = exec.LookPath("clang")
	if err != nil {
		return "", fmt.Errorf("the C kernels to compare with cannot be compiled; install clang (on Debian: apt install clang): %w", err)
	}
	return path, nil
}

// Compile makes a library of the kernels in a folder, which is the caller's to
// remove, with the compiler at a path, for a processor with the instructions given. It
// returns the library's path and the first line of what the compiler says about itself.
func Compile(ctx context.Context, path, dir string, isa ptxexec.ISA) (library, version string, err error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	version, _, _ = strings.Cut(string(out), "\n")
	if err := os.CopyFS(dir, sources); err != nil {
		return "", "", fmt.Errorf("writing the C kernels: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "c", "*.c"))
	if err != nil {
		return "", "", err
	}
	library = filepath.Join(dir, "kernels.so")
	args := append(Flags(isa), "-o", library)
	cmd := exec.CommandContext(ctx, path, append(append(args, files...), "-lm")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%s cannot compile the C kernels (are the C library's headers there? on Debian: apt install libc6-dev): %w: %s", path, err, bytes.TrimSpace(out))
	}
	return library, version, nil
}
