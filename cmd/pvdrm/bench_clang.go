package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/clang"
	"pvdrm/internal/bench/opencl"
)

// clangBenches are the chosen programs that there are in C: bench clang has more than the
// suite.
func (f *benchFlags) clangBenches() []string {
	if f.allBenches && f.only == onlyClang {
		return clang.Programs
	}
	return slices.DeleteFunc(slices.Clone(clang.Programs), func(name string) bool { return !slices.Contains(f.benches, name) })
}

// wantsClang says whether the software GPU is to be compared with C code.
func (f *benchFlags) wantsClang() bool {
	switch f.only {
	case onlyClang:
		return true
	case "":
		return f.dev.device.kind().clang && slices.Contains(f.modes, string(bench.Native)) && len(f.clangBenches()) > 0
	}
	return false
}

// compareClang runs programs on the software GPU, by the agent given, with their
// kernels in C and, where PoCL is installed, in OpenCL, in turn. Without a compiler the report says so, unless the
// comparison is all that was asked for.
func (f *benchFlags) compareClang(ctx context.Context, native *agentProcess, r *bench.Report, progress func(string)) (err error) {
	note := func(text string) { r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "C kernels", Value: text}) }
	compiler, err := clang.Find()
	if err != nil {
		if f.only == onlyClang {
			return err
		}
		note("left out: " + err.Error())
		return nil
	}
	dir, err := newRunDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	progress("compiling the C kernels")
	isa := ptxexec.InUse()
	library, version, err := clang.Compile(ctx, compiler, dir.path(""), isa)
	if err != nil {
		if f.only == onlyClang || ctx.Err() != nil {
			return err
		}
		note("left out: " + err.Error())
		return nil
	}
	note(fmt.Sprintf("%s, %s", version, strings.Join(clang.Flags(isa), " ")))
	self, err := ownProgram()
	if err != nil {
		return err
	}
	sides := clangSides{self: self, library: library, cache: dir.path("pocl"), isa: isa, device: f.dev.args(), native: native}
	defer func() { err = errors.Join(err, sides.stop()) }()
	lacks := func(s bench.Series, name string) bool { return s.Mode == bench.PoCL && !opencl.Runs(name) }
	plan := bench.Plan{Benches: f.clangBenches(), Runs: f.runs, Lacks: lacks}
	counts := f.processors
	if len(counts) == 0 {
		counts = []int{0}
	}
	for _, n := range counts {
		places, err := sides.start(ctx, n)
		if err != nil {
			return err
		}
		plan.Places = append(plan.Places, places...)
	}
	r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "OpenCL", Value: sides.pocl})
	samples, err := plan.Run(ctx, progress)
	if r.Clang = bench.ClangRows(samples, string(isa)); err != nil {
		f.noteInterrupted(ctx, r, samples)
	}
	return err
}

// clangSides are the agents that the software GPU, C and PoCL run in.
type clangSides struct {
	self, library, cache string
	isa                  ptxexec.ISA
	device               []string
	native               *agentProcess // of all processors; the caller's
	agents               []*agentProcess
	pocl                 string // its version, or why it is left out
}

// start starts the agents of a number of processors, or of all with 0.
func (c *clangSides) start(ctx context.Context, n int) (places []bench.Place, err error) {
	agent := func(mode bench.Mode, env []string, args ...string) (*agentProcess, error) {
		cmd := exec.Command(c.self, append([]string{benchNative}, args...)...)
		if env != nil {
			cmd.Env = append(os.Environ(), env...)
		}
		a, err := startAgentOn(ctx, n, cmd)
		if err == nil {
			c.agents = append(c.agents, a)
			places = append(places, place{agent: a, series: bench.Series{Mode: mode, Config: bench.Full}, apart: mode == bench.Native, processors: n})
		}
		return a, err
	}
	if n == 0 {
		places = append(places, place{agent: c.native, series: bench.Series{Mode: bench.Native, Config: bench.Full}, apart: true})
	} else if _, err := agent(bench.Native, nil, c.device...); err != nil {
		return nil, err
	}
	if _, err := agent(bench.Clang, nil, "--kernels", c.library); err != nil {
		return nil, err
	}
	threads := n
	if n == 0 {
		threads = runtime.NumCPU()
	}
	// PoCL keeps what it compiled in a folder.
	env := append(opencl.Width(c.isa), "POCL_CACHE_DIR="+c.cache, fmt.Sprintf("POCL_MAX_PTHREAD_COUNT=%d", threads))
	a, err := agent(bench.PoCL, env, "--opencl")
	switch {
	case err == nil:
		c.pocl = a.hello.Device
	case ctx.Err() != nil:
		return nil, err
	default:
		c.pocl = "left out: " + err.Error()
	}
	return places, nil
}

func (c *clangSides) stop() (err error) {
	for _, a := range c.agents {
		err = errors.Join(err, a.stop())
	}
	return err
}

// completeProcessors checks and sorts the numbers of processors to measure with.
func (f *benchFlags) completeProcessors() error {
	if len(f.processors) > 0 && f.only != onlyClang {
		return errors.New("--processors goes with bench clang")
	}
	slices.Sort(f.processors)
	f.processors = slices.Compact(f.processors)
	for _, n := range f.processors {
		if have := runtime.NumCPU(); n < 1 || n > have {
			return fmt.Errorf("--processors %d: there are 1 to %d that this process may run on", n, have)
		}
	}
	return nil
}
