package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/gpu/nvidia"
	"pvdrm/internal/bench/frameworks"
	"pvdrm/vmm"
)

// Places of `pvdrm bench frameworks`.
const (
	frameworksLocal = "local"
	frameworksVM    = "vm"
)

var frameworksPlaces = []string{frameworks.Native, frameworksLocal, frameworksVM}

// frameworksFlags are the flags of `pvdrm bench frameworks`.
type frameworksFlags struct {
	dev                deviceFlags
	frameworks, places []string
	groups             []string
	chosen             map[string][]string // of each framework
	runs               int
	limit              time.Duration
	python, json       string
	qemu, accel        string
	memory             int
}

func newBenchFrameworks() *cobra.Command {
	var f frameworksFlags
	c := &cobra.Command{
		Use:   "frameworks [flags]",
		Short: "Compare PyTorch, Triton, JAX and CuPy with what they do natively",
		Long: `Run programs of PyTorch (with Triton), JAX and CuPy in turns:

  native  on NVIDIA's driver
  local   as a local guest: pvdrm run --device cuda
  vm      in a virtual machine with this host's files: pvdrm up --device cuda
          --root /

Each says its results as digests, which must be the native ones bit for bit, and
how long things took: small operations, launches, copies, graphs, steps of
training. Times are medians; ratios are taken within a round. The frameworks are
those of --python. With --frameworks programs it runs small programs of public
libraries (transformers, timm, Lightning, Diffrax and others), each by itself; what is
not installed there fails natively, too, and does not count. cuBLAS, cuDNN and the
like need --cuda-libs. The exit code is 1 where a result is missing or differs.`,
		Example: "  pvdrm bench frameworks --device cuda --places native,local\n  pvdrm bench frameworks --frameworks torch --groups eager,launches,copies --json out/frameworks.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(); err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.frameworks, "frameworks", frameworks.Names, "which of them; "+frameworks.Programs+" are 22 small ones of libraries on them")
	fl.StringSliceVar(&f.places, "places", []string{frameworks.Native, frameworksLocal}, "where: "+strings.Join(frameworksPlaces, ", "))
	fl.StringSliceVar(&f.groups, "groups", nil, "groups of the programs to run (default: all)")
	fl.IntVar(&f.runs, "runs", 3, "rounds")
	fl.DurationVar(&f.limit, "limit", 10*time.Minute, "how long a program may take")
	fl.StringVar(&f.python, "python", "python3", "Python to use, name or path")
	fl.StringVar(&f.json, "json", "", "write the results to this file as JSON")
	fl.StringVar(&f.qemu, "qemu", defaultQEMU(), "QEMU to use, name or path")
	fl.StringVar(&f.accel, "accel", vmm.Auto, "what runs the guest's processors: kvm, tcg, or auto: kvm where it works")
	fl.IntVar(&f.memory, "memory", 16<<10, "memory of the machine, MiB")
	return c
}

func (f *frameworksFlags) complete() error {
	for _, list := range []struct {
		flag       string
		names, all []string
	}{{flag: "frameworks", names: f.frameworks, all: append(slices.Clone(frameworks.Names), frameworks.Programs)}, {flag: "places", names: f.places, all: frameworksPlaces}} {
		if len(list.names) == 0 {
			return fmt.Errorf("--%s: name at least one", list.flag)
		}
		for _, n := range list.names {
			if !slices.Contains(list.all, n) {
				return fmt.Errorf("--%s: there is no %q, only %s", list.flag, n, strings.Join(list.all, ", "))
			}
		}
	}
	var err error
	if f.chosen, err = frameworks.Choose(f.frameworks, f.groups); err != nil {
		return fmt.Errorf("--groups: %w", err)
	}
	if f.runs < 1 {
		return fmt.Errorf("--runs %d: must be at least 1", f.runs)
	}
	return nil
}

// run measures and reports.
func (f *frameworksFlags) run(ctx context.Context, out io.Writer) (err error) {
	dir, err := newRunDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	if err := frameworks.Write(dir.path("")); err != nil {
		return err
	}
	var file io.WriteCloser
	if f.json != "" { // before anything is measured, so that a wrong path costs no time
		if file, err = os.Create(f.json); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	r := frameworks.Report{Command: "pvdrm " + strings.Join(os.Args[1:], " "), Date: time.Now().Format(time.RFC3339), Places: f.places}
	for round := range f.runs {
		for _, framework := range f.frameworks {
			for _, place := range f.places {
				if ctx.Err() != nil {
					break
				}
				progress("round %d of %d: %s, %s", round+1, f.runs, framework, place)
				r.Runs = append(r.Runs, f.once(ctx, dir.path(frameworks.Program(framework)), framework, place, round))
			}
		}
	}
	if file != nil {
		if err := r.JSON(file); err != nil {
			return err
		}
	}
	if err := r.Text(out); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Wrong() || slices.ContainsFunc(r.Runs, func(run frameworks.Run) bool { return run.Error != "" }) {
		return exitError{1}
	}
	return nil
}

// once runs a framework's program in a place.
func (f *frameworksFlags) once(ctx context.Context, program, framework, place string, round int) frameworks.Run {
	run := frameworks.Run{Framework: framework, Place: place, Round: round}
	limited, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	cmd, err := f.command(limited, place, program, f.chosen[framework])
	if err != nil {
		run.Error = err.Error()
		return run
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a pvdrm ends its guest
	cmd.WaitDelay = 20 * time.Second
	begin := time.Now()
	failed := cmd.Run()
	run.Seconds = time.Since(begin).Seconds()
	if err := errors.Join(run.Read(out.Bytes()), failed, limited.Err()); err != nil {
		run.Error = fmt.Sprintf("%v: %s", err, tail(log.String()))
	}
	return run
}

// tail is the end of what a program complained of.
func tail(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}

// command is how a program runs in a place.
func (f *frameworksFlags) command(ctx context.Context, place, program string, groups []string) (*exec.Cmd, error) {
	line := append([]string{f.python, program}, groups...)
	if place == frameworks.Native {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env = append(nvidia.InOrder(os.Environ()), "CUDA_VISIBLE_DEVICES="+strconv.Itoa(f.dev.device.number))
		return cmd, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	args := []string{"run", "--device", f.dev.device.String()}
	if place == frameworksVM {
		python, err := exec.LookPath(f.python)
		if err != nil {
			return nil, fmt.Errorf("--python: %w", err)
		}
		if line[0], err = filepath.Abs(python); err != nil {
			return nil, fmt.Errorf("--python: %w", err)
		}
		args = []string{"up", "--device", f.dev.device.String(), "--root", "/", "--share", filepath.Dir(program), "--qemu", f.qemu, "--accel", f.accel, "--memory", strconv.Itoa(f.memory)}
	}
	if f.dev.cudaLibs != "" {
		args = append(args, "--"+cudaLibsFlag, f.dev.cudaLibs)
	}
	return exec.CommandContext(ctx, self, slices.Concat(args, []string{"--"}, line)...), nil
}
