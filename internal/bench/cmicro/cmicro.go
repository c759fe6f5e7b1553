// Package cmicro measures some of the calls of package micro from C, on
// the CUDA driver API itself: so what Go costs, and what PVDRM does, can be told
// apart. The C program is compiled when it is needed.
package cmicro

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pvdrm/gpu/nvidia"
	"pvdrm/internal/bench/micro"
)

//go:embed c/micro.c
var source []byte

// ErrNoCompiler says that there is no C compiler.
var ErrNoCompiler = errors.New("no C compiler; install one (on Debian: apt install gcc libc6-dev)")

// Run compiles the program in dir, which is the caller's to remove, and runs it on
// the libcuda.so.1 of this machine, on the GPU of a number. Each measurement takes about the budget.
func Run(ctx context.Context, dir string, number int, budget time.Duration) ([]micro.Result, error) {
	path, err := exec.LookPath("cc")
	if err != nil {
		return nil, errors.Join(ErrNoCompiler, err)
	}
	file, program := filepath.Join(dir, "micro.c"), filepath.Join(dir, "micro")
	const mode = 0o600
	if err := os.WriteFile(file, source, mode); err != nil {
		return nil, fmt.Errorf("writing the C program: %w", err)
	}
	if out, err := exec.CommandContext(ctx, path, "-O2", "-o", program, file, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s cannot compile the C program: %w: %s", path, err, bytes.TrimSpace(out))
	}
	cmd := exec.CommandContext(ctx, program, fmt.Sprint(budget.Nanoseconds()), fmt.Sprint(number))
	cmd.Env = nvidia.InOrder(os.Environ())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the C program on libcuda: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return parse(out)
}

// parse reads lines of a name and nanoseconds.
func parse(out []byte) (results []micro.Result, err error) {
	for line := range strings.Lines(string(out)) {
		var r micro.Result
		if _, err := fmt.Sscan(line, &r.Micro, &r.NS); err != nil {
			return nil, fmt.Errorf("the C program printed %q: %w", line, err)
		}
		results = append(results, r)
	}
	if results == nil {
		return nil, errors.New("the C program printed nothing")
	}
	return results, nil
}
