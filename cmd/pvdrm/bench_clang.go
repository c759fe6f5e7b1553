package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	c, err := startAgent(ctx, exec.Command(self, benchNative, "--kernels", library))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	lacks := func(s bench.Series, name string) bool { return s.Mode == bench.PoCL && !opencl.Runs(name) }
	plan := bench.Plan{Benches: f.clangBenches(), Runs: f.runs, Lacks: lacks, Places: []bench.Place{
		place{agent: native, series: bench.Series{Mode: bench.Native, Config: bench.Full}, apart: true},
		place{agent: c, series: bench.Series{Mode: bench.Clang, Config: bench.Full}},
	}}
	if pocl, err := startPoCL(ctx, self, dir.path("pocl"), isa); err == nil {
		defer func() { _ = pocl.stop() }()
		r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "OpenCL", Value: pocl.hello.Device})
		plan.Places = append(plan.Places, place{agent: pocl, series: bench.Series{Mode: bench.PoCL, Config: bench.Full}})
	} else if ctx.Err() != nil {
		return err
	} else {
		r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "OpenCL", Value: "left out: " + err.Error()})
	}
	samples, err := plan.Run(ctx, progress)
	r.Clang = bench.ClangRows(samples, string(isa))
	return err
}

// startPoCL starts an agent that runs programs on PoCL, which compiles for a processor with the
// instructions given, and keeps what it compiled in a folder.
func startPoCL(ctx context.Context, self, dir string, isa ptxexec.ISA) (*agentProcess, error) {
	cmd := exec.Command(self, benchNative, "--opencl")
	cmd.Env = append(os.Environ(), "POCL_CACHE_DIR="+dir, "POCL_LLVM_CPU_NAME="+clang.Processors[isa])
	return startAgent(ctx, cmd)
}
