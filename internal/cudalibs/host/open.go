// Package host calls the real CUDA libraries of a host for a guest, in the guest's own worker.
//
// A worker opens the libraries with Open before it is confined, and then runs batches of calls with
// Machine.Run. What a guest sends is decoded by package cudalibs; handles are looked up in the
// machine's table, so that a guest cannot name an address of the worker by one. The libraries
// themselves trust their callers: what a guest makes them do wrong ends its own worker.
//
// A Machine belongs to one goroutine, which is bound to a thread that has the CUDA context.
package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebitengine/purego"

	"pvdrm/internal/cudalibs"
)

// Env names the environment variable with the directories of the libraries, as Directories reads it.
const Env = "PVDRM_CUDA_LIBS"

// None as a specification opens no library.
const None = "none"

// Directories returns where the host's libraries are looked for: in each directory that a list names, in its
// folder lib, and in the wheels of a Python environment that it holds. Without a list they are
// looked for in the places of the CUDA toolkit and of the active Python environment.
func Directories(list string) (all []string) {
	roots := filepath.SplitList(list)
	if list == "" {
		roots = append(environments(), "/usr/local/cuda")
	}
	for _, root := range roots {
		for _, pattern := range []string{".", "lib", "lib64", "*/lib", "nvidia/*/lib", "lib/python3*/site-packages/nvidia/*/lib"} {
			found, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil {
				continue // a pattern in the name itself
			}
			for _, dir := range found {
				if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(all, dir) {
					all = append(all, dir)
				}
			}
		}
	}
	return all
}

// environments are the Python environments that a program is likely to run in: the active one, and that of the
// python3 that a shell finds, which need not have been activated.
func environments() (roots []string) {
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if env := os.Getenv(name); env != "" {
			roots = append(roots, env)
		}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		env := filepath.Dir(filepath.Dir(python))
		if _, err := os.Stat(filepath.Join(env, "pyvenv.cfg")); err == nil && !slices.Contains(roots, env) {
			roots = append(roots, env)
		}
	}
	return roots
}

// before are libraries that others open later by name, which a confined worker could not.
var before = []string{"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libnvrtc.so.12"}

// parts are those that cuDNN opens when it needs them.
var parts = []string{"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9",
	"libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9"}

// Libraries are those of the host that were opened. The zero value has none.
type Libraries struct {
	handles map[*cudalibs.Library]uintptr
	symbols []uintptr // of functions by index; 0: not looked up yet
	why     map[*cudalibs.Library]error
	lost    map[*cudalibs.Library]uintptr // do not start: only their constants are there
}

// Open opens what there is of the libraries in directories, and else where the system's loader finds
// them.
func Open(directories []string) *Libraries {
	t := cudalibs.All()
	l := &Libraries{handles: map[*cudalibs.Library]uintptr{}, symbols: make([]uintptr, len(t.Functions)), why: map[*cudalibs.Library]error{}, lost: map[*cudalibs.Library]uintptr{}}
	for _, name := range before {
		_, _ = open(directories, name) // a library that needs one it lacks does not open itself
	}
	// cuBLAS needs cuBLASLt, cuSOLVER the ones behind it.
	for _, lib := range slices.Backward(t.Libraries) {
		l.openOne(lib, directories)
	}
	for _, lib := range t.Libraries {
		if l.handles[lib] == 0 {
			l.openOne(lib, directories)
		}
	}
	return l
}

func (l *Libraries) openOne(lib *cudalibs.Library, directories []string) {
	for _, name := range lib.Names {
		h, err := open(directories, name)
		if err == nil {
			l.handles[lib] = h
			delete(l.why, lib)
			if lib.Name == "cudnn" {
				for _, part := range parts {
					_, _ = open(directories, part) // cuDNN itself says what it lacks
				}
			}
			return
		}
		if l.why[lib] == nil {
			l.why[lib] = err
		}
	}
}

// open opens a library by its path, or by its name.
func open(directories []string, name string) (uintptr, error) {
	for _, dir := range directories {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			return h, nil
		}
	}
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// Mask has a bit for each library that was opened, by its number.
func (l *Libraries) Mask() (mask uint64) {
	for lib := range l.handles {
		mask |= 1 << lib.Number
	}
	return mask
}

// lose drops a library, but for what it answers without a GPU.
func (l *Libraries) lose(lib *cudalibs.Library, why error) {
	l.lost[lib] = l.handles[lib]
	delete(l.handles, lib)
	l.why[lib] = why
	for _, f := range lib.Functions {
		l.symbols[f.Index] = 0
	}
}

// Missing says which libraries were not opened, and why.
func (l *Libraries) Missing() string {
	var lines []string
	for _, lib := range cudalibs.All().Libraries {
		if err := l.why[lib]; err != nil {
			lines = append(lines, lib.Names[0]+": "+err.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// symbol finds a function.
func (l *Libraries) symbol(f *cudalibs.Function) (uintptr, cudalibs.Refusal) {
	if at := l.symbols[f.Index]; at != 0 {
		return at, 0
	}
	h := l.handles[f.Library]
	if h == 0 && f.Constant {
		h = l.lost[f.Library]
	}
	if h == 0 {
		return 0, cudalibs.RefusedLibrary
	}
	at, err := purego.Dlsym(h, f.Name)
	if err != nil {
		return 0, cudalibs.RefusedSymbol
	}
	l.symbols[f.Index] = at
	return at, 0
}
