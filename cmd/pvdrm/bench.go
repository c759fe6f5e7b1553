package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/bench/clang"
	"pvdrm/internal/suite"
	"pvdrm/vmm"
)

// benchFlags are the flags of `pvdrm bench`.
type benchFlags struct {
	dev             deviceFlags
	modes, benches  []string
	configs         []string
	ablation, quick bool
	scale           bool // inputs so large that programs run long enough
	runs            int
	microTime       time.Duration
	json, csv, html string
	qemu, accel     string
	memory, cpus    int
	against         string   // pvdrm of another tree to compare with; "" for none
	given           []string // flags of the device as they were given
	only            string   // one of parts, or "" for all
	processors      []int    // numbers of processors to compare with C on; none means all of them
	allBenches      bool     // no --bench was given
}

// The parts of a bench.
const (
	onlyMicro = "micro"
	onlySuite = "suite"
	onlyClang = "clang"
)

var parts = []string{onlyMicro, onlySuite, onlyClang}

// quickBenches are the programs of a quick bench: one of each kind, and none
// that takes long.
var quickBenches = []string{"nop", "loop", "madd", "cpy", "pincpy", "bp", "hs", "lud", "nn", "srad2"}

const (
	defaultRuns  = 11
	quickRuns    = 4
	defaultMicro = 300 * time.Millisecond
	quickMicro   = 100 * time.Millisecond
)

func newBench(g *global) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench [flags] [" + strings.Join(parts, " | ") + "]",
		Short: "Measure the Gdev suite on the bare device, as a local guest and in a virtual machine",
		Long: `Run the programs of the Gdev suite, and micro-benchmarks, side by side:

  native    linked straight onto the device, with nothing between
  local     as a local guest: a process of its own, through the ring
  vm        in a virtual machine, which stays up meanwhile
  vm-floor  in that machine, on a driver that answers at once and computes
            nothing: what the program itself costs there

Every round runs each program once in each of them. The first round warms up and
is thrown away; ratios are taken within a round. Run it on a quiet machine.

The kernels of some programs are also compared with the same in C, compiled by
clang for this machine and run on all of its processors (clang), and in OpenCL with
PoCL where that is installed. bench clang runs 31 programs so, 18 of them not Gdev's; one
multiplies f16 matrices by PTX's mma, which OpenCL lacks. With --processors it runs
them on several numbers of processors, and says how many times as fast they get.

With --device cuda native programs run on NVIDIA's driver itself. Native micro-
benchmarks run on the device of PVDRM, and besides in C on the driver (driver).

With --ablation it also measures without what makes forwarding fast: polling,
multicalls, the pool, and without all three. --config names combinations, such
as full,nopoll+nopool.

With --against it compares two builds of pvdrm: the quick programs and the micro-
benchmarks run by this one and by another, in turns. For each figure it prints the
median of the ratios and the interval in which that lies with 95 %, and names the
figures in which this build is worse: by more than 2 %, with an interval that
excludes 1.

Interrupted, it reports what it has measured. The exit code is 1 when a result
is wrong or, with --against, a figure worse.`,
		Example: "  pvdrm bench --quick --html report.html\n  pvdrm bench --modes native,local --bench madd,srad\n  pvdrm bench micro\n  pvdrm bench clang\n  pvdrm bench clang --processors 1,2,4\n  pvdrm bench --against ../before/bin/pvdrm --modes native,local",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(parts, args[0]) {
				return fmt.Errorf("%q: bench takes one of %s, or nothing", strings.Join(args, " "), strings.Join(parts, ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.only = args[0]
			}
			if err := f.complete(c); err != nil {
				return usageError{err}
			}
			if f.against != "" {
				return f.runAgainst(c.Context(), c.OutOrStdout())
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.modes, "modes", modeNames(), "where to run")
	fl.StringSliceVar(&f.benches, "bench", nil, "programs to run (default: all; with --quick: "+strings.Join(quickBenches, ",")+")")
	fl.StringSliceVar(&f.configs, "config", []string{bench.Full}, "configurations of local guests and machines: full, or nopoll, nomulticall and nopool joined by +")
	fl.BoolVar(&f.ablation, "ablation", false, "the configurations "+strings.Join(bench.Ablation, ","))
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("about two minutes: %d runs of some programs", quickRuns))
	fl.BoolVar(&f.scale, "scale", false, fmt.Sprintf("larger inputs, so that each program takes %.0f ms or more natively, without phases init and close; a machine may need more --memory", 1e3*scaledLeast))
	fl.StringVar(&f.against, "against", "", "compare this pvdrm with that of another tree, such as ../before/bin/pvdrm")
	fl.IntVar(&f.runs, "runs", defaultRuns, "runs of each program; with more than one the first is thrown away")
	fl.DurationVar(&f.microTime, "micro-time", defaultMicro, "about how long each micro-benchmark takes")
	fl.IntSliceVar(&f.processors, "processors", nil, "bench clang: numbers of processors to run on, in turns, such as 1,2,4 (default: all)")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.csv, "csv", "", "write the results to this file as CSV")
	fl.StringVar(&f.html, "html", "", "write a report with charts to this file, HTML that needs nothing else")
	fl.StringVar(&f.qemu, "qemu", defaultQEMU(), "QEMU to use, name or path")
	fl.StringVar(&f.accel, "accel", vmm.Auto, "what runs the guest's processors: kvm, tcg, or auto: kvm where it works")
	fl.IntVar(&f.memory, "memory", vmm.DefaultMemoryMiB, "memory of the machine, MiB")
	fl.IntVar(&f.cpus, "cpus", 0, "processors of the machine; 0 means one, or two where the host has four or more")
	c.AddCommand(newBenchFairness(g), newBenchGL(g), newBenchTReM(g), newBenchModes(g), newBenchPreempt(g), newBenchDivision(g), newBenchNEON(g), newBenchFrameworks(), newBenchGLoop(g))
	return c
}

func modeNames() (names []string) {
	for _, m := range bench.Modes {
		names = append(names, string(m))
	}
	return names
}

// complete checks the flags and fills in what follows from others.
func (f *benchFlags) complete(c *cobra.Command) error {
	f.allBenches = f.benches == nil
	if f.against != "" {
		if err := f.completeAgainst(c); err != nil {
			return err
		}
	}
	if err := f.completeProcessors(); err != nil {
		return err
	}
	if f.only == onlyClang {
		if !f.dev.device.kind().clang {
			return fmt.Errorf("bench clang compares the software GPU: it takes no --device %s", &f.dev.device)
		}
		f.modes = []string{string(bench.Native)}
	}
	if f.quick {
		if !c.Flags().Changed("runs") {
			f.runs = quickRuns
		}
		if !c.Flags().Changed("micro-time") {
			f.microTime = quickMicro
		}
		if f.benches == nil {
			f.benches = quickBenches
		}
	}
	if f.benches == nil {
		for _, b := range suite.All() {
			f.benches = append(f.benches, b.Name)
		}
	}
	for _, b := range f.benches {
		if _, err := suite.Find(b); err != nil {
			return fmt.Errorf("--bench: %w", err)
		}
	}
	if f.only == onlyClang && len(f.clangBenches()) == 0 {
		return fmt.Errorf("--bench: in C there are the kernels of %s only", strings.Join(clang.Programs, ", "))
	}
	if f.runs < 1 {
		return fmt.Errorf("--runs %d: must be at least 1", f.runs)
	}
	for _, m := range f.modes {
		if !slices.Contains(bench.Modes, bench.Mode(m)) {
			return fmt.Errorf("--modes: there is no mode %q, only %s", m, strings.Join(modeNames(), ", "))
		}
	}
	if f.scale && !slices.Contains(f.modes, string(bench.Native)) {
		return errors.New("--scale finds out natively how large inputs must be: leave native among the --modes")
	}
	if f.ablation {
		if c.Flags().Changed("config") {
			return errors.New("say --ablation or --config, not both")
		}
		f.configs = bench.Ablation
	}
	for _, name := range f.configs {
		if err := bench.CheckConfig(name); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	return nil
}

// run measures and reports.
func (f *benchFlags) run(ctx context.Context, out io.Writer) (err error) {
	files, err := f.create()
	if err != nil {
		return err
	}
	r := bench.Report{Header: bench.Header{Date: time.Now(), Command: "pvdrm " + strings.Join(os.Args[1:], " "), Runs: f.runs}}
	if err = f.measure(ctx, &r); err != nil && len(r.Rows) == 0 && len(r.Clang) == 0 {
		return errors.Join(err, files.close())
	}
	return files.report(r, errors.Join(err, r.WriteText(out)), len(r.Failures()) > 0)
}

// measure starts the agents, runs everything and ends them.
func (f *benchFlags) measure(ctx context.Context, r *bench.Report) (err error) {
	agents := map[bench.Mode]*agentProcess{}
	defer func() {
		for _, a := range agents {
			err = errors.Join(err, a.stop())
		}
	}()
	self, err := ownProgram()
	if err != nil {
		return err
	}
	plan := bench.Plan{Benches: f.benches, Runs: f.runs}
	scales, known := map[string]int{}, map[string]string{} // filled in below
	for _, mode := range bench.Modes {
		if !slices.Contains(f.modes, string(mode)) {
			continue
		}
		a := agents[bench.VM]
		if mode != bench.Floor || a == nil { // the floor is in the same machine
			if a, err = f.startAgent(ctx, self, mode, f.dev.args()); err != nil {
				return err
			}
			agents[mode] = a
		}
		for _, c := range f.configsOf(mode) {
			plan.Places = append(plan.Places, place{agent: a, series: bench.Series{Mode: mode, Config: c}, budget: f.microTime, scales: scales, known: known})
		}
	}
	r.Header.Facts = f.facts(ctx, agents)

	status := newStatus()
	defer status.clear()
	if f.only == "" || f.only == onlyMicro {
		micros := plan
		if more := f.dev.device.kind().micros; more != nil {
			micros.Places = append(slices.Clone(plan.Places), more(f, r)...)
		}
		if r.Micros, err = micros.RunMicro(ctx, status.show); err != nil {
			return err
		}
	}
	if f.only == "" || f.only == onlySuite {
		if f.scale {
			found, err := f.scalesOf(ctx, agents[bench.Native], r, status.show)
			if err != nil {
				return err
			}
			maps.Copy(scales, found)
		}
		samples, err := plan.Run(ctx, status.show)
		if r.Rows = bench.Rows(samples); err != nil {
			f.noteInterrupted(ctx, r, samples)
			return err
		}
	}
	if f.wantsClang() {
		return f.compareClang(ctx, agents[bench.Native], r, status.show)
	}
	return nil
}

// noteInterrupted has the report name the round in which its user has had enough.
func (f *benchFlags) noteInterrupted(ctx context.Context, r *bench.Report, samples []bench.Sample) {
	if ctx.Err() != nil && len(samples) > 0 {
		r.Header.Facts = append(r.Header.Facts, bench.Fact{Name: "interrupted in run",
			Value: fmt.Sprintf("%d of %d, after %d measurements", samples[len(samples)-1].Round+1, f.runs, len(samples))})
	}
}

// configsOf are the configurations to measure in a mode.
func (f *benchFlags) configsOf(m bench.Mode) []string {
	if m == bench.Native || m == bench.Floor {
		return []string{bench.Full} // there is nothing to switch off
	}
	return f.configs
}

// agentArgs is the command line of a mode's agent, on a device that other arguments choose.
func (f *benchFlags) agentArgs(m bench.Mode, device []string) []string {
	switch m {
	case bench.Native:
		return append([]string{benchNative}, device...)
	case bench.Local:
		return append(append([]string{"run"}, device...), "--", "gdev", "agent")
	}
	args := append([]string{"up", "--console=false", "--qemu", f.qemu, "--accel", f.accel,
		"--memory", fmt.Sprint(f.memory), "--cpus", fmt.Sprint(f.cpus)}, device...)
	return append(args, "--", "gdev", "agent")
}

// facts describe the machine and the versions.
func (f *benchFlags) facts(ctx context.Context, agents map[bench.Mode]*agentProcess) []bench.Fact {
	facts := []bench.Fact{
		{Name: "host", Value: describe(agent.Here())},
		{Name: "load before", Value: loadAverage()},
		{Name: "pvdrm", Value: fmt.Sprintf("%s, %s", version, runtime.Version())},
		{Name: "device", Value: strings.Join(f.dev.args(), " ")},
	}
	for _, m := range []bench.Mode{bench.VM, bench.Floor} {
		a := agents[m]
		if a == nil {
			continue
		}
		facts = append(facts, bench.Fact{Name: "guest", Value: describe(a.hello)})
		if q, err := vmm.FindQEMU(ctx, f.qemu); err == nil { // it runs, so it can be found
			facts = append(facts, bench.Fact{Name: "QEMU", Value: q.Version.String()})
		}
	}
	return facts
}

// describe names a machine in a line.
func describe(h agent.Hello) string {
	return fmt.Sprintf("%s, %d processors: %s", h.System, h.Processors, h.Processor)
}

// loadAverage is how busy the host was: what else runs disturbs the figures.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(b))
	return strings.Join(words[:min(3, len(words))], " ")
}

// status shows what is running, on one line of a terminal.
type status struct{ terminal bool }

func newStatus() status { return status{term.IsTerminal(int(os.Stderr.Fd()))} }

func (s status) show(text string) {
	if s.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
	}
}

func (s status) clear() { s.show("") }

// reportTo is where a report of type R goes, if path is not empty.
type reportTo[R any] struct {
	path  string
	write func(R, io.Writer) error
}

// benchFile is a file that a report goes to.
type benchFile[R any] struct {
	file  *os.File
	write func(R, io.Writer) error
}

type benchFiles[R any] []benchFile[R]

// create makes the files before anything is measured, so that a wrong path
// costs no time.
func (f *benchFlags) create() (benchFiles[bench.Report], error) {
	return createFiles([]reportTo[bench.Report]{{f.json, bench.Report.WriteJSON}, {f.csv, bench.Report.WriteCSV}, {f.html, bench.Report.WriteHTML}})
}

func createFiles[R any](reports []reportTo[R]) (files benchFiles[R], err error) {
	for _, x := range reports {
		if x.path == "" {
			continue
		}
		file, err := os.Create(x.path)
		if err != nil {
			return nil, errors.Join(err, files.close())
		}
		files = append(files, benchFile[R]{file, x.write})
	}
	return files, nil
}

// report writes a report to the files and closes them; after an error too, to keep what was
// measured until then.
func (files benchFiles[R]) report(r R, err error, failed bool) error {
	for _, x := range files {
		err = errors.Join(err, x.write(r, x.file))
	}
	if err := errors.Join(err, files.close()); err != nil {
		return err
	}
	if failed {
		return exitError{1}
	}
	return nil
}

func (files benchFiles[R]) close() (err error) {
	for _, f := range files {
		err = errors.Join(err, f.file.Close())
	}
	return err
}
