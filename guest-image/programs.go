package guestimage

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Program is a program for the guest, installed as /bin/NAME.
type Program struct {
	// Name is the name in the guest and, where Path is empty, what is looked for, in this order:
	//
	//	$PVDRM_GUEST_DIR/NAME
	//	guest/NAME beside the running executable (bin/guest, as "make build" leaves it)
	//	../lib/pvdrm/guest/NAME from the running executable (an installed prefix)
	//	cmd/NAME of PVDRM's source tree around the executable or the working directory, which is
	//	then built with the go command
	Name string
	// Path of an executable for x86-64; a static one for the base image.
	Path string
}

// initProgram is the guest's first process; every image has it.
const initProgram = "pvdrm-init"

// guestDirEnv names the variable for the directory with guest programs.
const guestDirEnv = "PVDRM_GUEST_DIR"

// modulePath is the Go module that the guest programs belong to.
const modulePath = "pvdrm"

// locate returns the path of a program, building it where only its source is there. buildDir keeps
// what was built.
func locate(ctx context.Context, p Program, buildDir string) (string, error) {
	if p.Name == "" || strings.ContainsAny(p.Name, "/\x00\n") || p.Name[0] == '.' {
		return "", fmt.Errorf("%q is no name for a guest program", p.Name)
	}
	if p.Path != "" {
		return p.Path, nil
	}
	var dirs []string
	if d := os.Getenv(guestDirEnv); d != "" {
		dirs = append(dirs, d)
	}
	exe, err := os.Executable()
	if err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "guest"), filepath.Join(filepath.Dir(exe), "..", "lib", "pvdrm", "guest"))
	}
	for _, d := range dirs {
		path := filepath.Join(d, p.Name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	src, err := sourceTree(filepath.Dir(exe))
	if err != nil {
		return "", err
	}
	if src == "" {
		return "", fmt.Errorf("guest program %s not found in %s: run \"make build\" in PVDRM's source tree, or set %s to the directory that has it", p.Name, strings.Join(dirs, ", "), guestDirEnv)
	}
	return build(ctx, p.Name, src, buildDir)
}

// sourceTree returns the root of PVDRM's source tree around the working directory or another one,
// empty where there is none.
func sourceTree(other string) (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, start := range []string{wd, other} {
		for dir := start; ; dir = filepath.Dir(dir) {
			mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && bytes.HasPrefix(mod, []byte("module "+modulePath+"\n")) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", nil
}

// build compiles one of our programs for the guest.
func build(ctx context.Context, name, src, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./cmd/"+name)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-mod=readonly")
	if msg, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("build guest program %s: the go command is not installed (make deps installs it)", name)
		}
		return "", fmt.Errorf("build guest program %s: %w\n%s", name, err, lastLines(string(msg), 20))
	}
	return out, nil
}

// readProgram reads an executable and checks that the guest can run it: a static one where it has no
// libraries.
func readProgram(path string, libraries bool) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := checkELF(path, b, elf.ET_EXEC, elf.ET_DYN)
	if err != nil {
		return nil, err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && !libraries {
			return nil, fmt.Errorf("%s is dynamically linked, but this image has no libraries: build it with CGO_ENABLED=0 or with -static, or choose another image", path)
		}
	}
	return b, nil
}

// checkELF reads the header of a file for x86-64 of one of the types.
func checkELF(path string, b []byte, types ...elf.Type) (*elf.File, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s is not an ELF executable: %w", path, err)
	}
	if f.Machine != elf.EM_X86_64 || !slices.Contains(types, f.Type) {
		return nil, fmt.Errorf("%s is not an executable for x86-64 (%v, %v)", path, f.Machine, f.Type)
	}
	return f, nil
}
