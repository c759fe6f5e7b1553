package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/backend/gpuvm"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/suite"
	"pvdrm/vmm"
)

// modesFlags are the flags of `pvdrm bench modes`.
type modesFlags struct {
	modes, benches []string
	runs           int
	quick          bool
	json, html     string
	traps          string
	guests         []int
	contexts       []int
	vm             bool
	accel, qemu    string
	memory         int
}

func newBenchModes(*global) *cobra.Command {
	f := modesFlags{}
	c := &cobra.Command{
		Use:   "modes",
		Short: "Compare ways to virtualize a GPU at its registers, with counts of all that traps",
		Long: `Run the programs of the Gdev suite on the software GPU as a card, in rounds:

  native        the driver on the card, with nothing between
  pt            the card is passed through: the same, with an IOMMU domain
  fv            full virtualization: every access traps, page tables are scanned at each flush
  fv-remap      BAR3 is mapped, but for the pages of channel descriptors
  fv-lazy       page tables are scanned when a channel is activated
  fv-opt        both
  pv            page tables are changed by hypercalls, one for each entry
  pv-multicall  up to 128 operations in a hypercall
  pvdrm         PVDRM: a local guest that makes DRM calls, without the pool of memory
  pvdrm-pool    the same with the pool
  pvdrm-native  programs linked onto PVDRM's device, which these two are compared with
  fv-bar1       fv-opt with BAR1 mapped, too, but for the doorbells
  pv-bar1       pv-multicall with that
  side-core     fv with traps that a thread of the owner polls for
  nested        fv-remap on a card that walks the guest's page tables itself, and a second
                level of the hypervisor's behind them

Guests are processes, PVDRM's too. A trap is a request to the process that owns the
card, which answers: each wakes the other (--traps doorbell), or both poll (--traps page).
With --traps call guests of GPUvm are in the same process, and a trap is a call. With
--vm guests are virtual machines, and a doorbell is an exit; native is this host still.
docs/gpuvm.md explains the columns.

The exit code is 1 when a result is wrong.`,
		Example: "  pvdrm bench modes --quick --json modes.json\n  pvdrm bench modes --modes native,fv,fv-opt --bench madd,pincpy --traps call\n  pvdrm bench modes --guests 1,2,4,8 --modes native,fv,pv-multicall,pvdrm-pool --bench madd\n  pvdrm bench modes --vm --html modes.html",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c); err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.modes, "modes", bench.ModeNames(), "modes to compare")
	fl.StringSliceVar(&f.benches, "bench", nil, "programs to run (default: all)")
	fl.IntVar(&f.runs, "runs", defaultRuns, "runs of each program; with more than one the first is thrown away")
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("about three minutes: %d runs of some programs", quickModeRuns))
	fl.StringVar(&f.traps, "traps", bench.TrapDoorbell, "how a trap reaches what owns the card: "+strings.Join(bench.Traps(), ", "))
	fl.IntSliceVar(&f.guests, "guests", nil, "run each program in so many guests at the same time, such as 1,2,4,8, in place of rounds: of one card, or of PVDRM")
	fl.IntSliceVar(&f.contexts, "contexts", nil, "likewise in so many contexts of one guest")
	fl.BoolVar(&f.vm, "vm", false, "guests are virtual machines")
	fl.StringVar(&f.accel, "accel", vmm.Auto, "with --vm: what runs the guest's processors: kvm, tcg, or auto: kvm where it works")
	fl.StringVar(&f.qemu, "qemu", defaultQEMU(), "with --vm: QEMU to use, name or path; --traps pci needs 11.1")
	fl.IntVar(&f.memory, "memory", modeMemoryMiB, "with --vm: memory of a machine, MiB; a guest of GPUvm grants half of it to its card")
	fl.StringVar(&f.html, "html", "", "write a report with charts to this file, HTML that needs nothing else")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	return c
}

// What is compared in virtual machines, where a trap takes a third of a millisecond when processors
// are emulated: without the modes in which each access of BAR3 traps.
var (
	vmModes   = []string{bench.NativeMode, "fv-remap", "fv-opt", "pv", "pv-multicall", bench.PVDRMMode, bench.PVDRMPoolMode}
	vmBenches = []string{"nop", "madd", "srad", "pincpy"}
)

// modeMemoryMiB is the memory of a machine, of which a card's guest grants half.
const modeMemoryMiB = 1024

// completeVM fills in what --vm compares.
func (f *modesFlags) completeVM(c *cobra.Command) error {
	if !f.vm {
		if f.traps == bench.TrapPCI {
			return errors.New("--traps pci: virtual machines have PCI devices; add --vm")
		}
		return nil
	}
	if f.traps == bench.TrapCall {
		return errors.New("--traps call: with --vm no guest is in this process")
	}
	if !c.Flags().Changed("modes") {
		f.modes = vmModes
	}
	if f.benches == nil {
		f.benches = vmBenches
	}
	return nil
}

// quickModeBenches are the programs of a quick comparison of modes: one of each kind, of which the
// naive modes take not too long. quickModeRuns is how often they run.
var quickModeBenches = []string{"nop", "loop", "madd", "cpy", "pincpy", "hs", "srad2"}

const quickModeRuns = 3

// complete checks the flags and fills in what follows from others.
func (f *modesFlags) complete(c *cobra.Command) error {
	for _, m := range f.modes {
		if err := bench.CheckMode(m); err != nil {
			return fmt.Errorf("--modes: %w", err)
		}
	}
	for _, b := range f.benches {
		if _, err := suite.Find(b); err != nil {
			return fmt.Errorf("--bench: %w", err)
		}
	}
	if f.benches == nil && f.quick {
		f.benches = quickModeBenches
	}
	if f.benches == nil {
		for _, b := range suite.All() {
			f.benches = append(f.benches, b.Name)
		}
	}
	if !slices.Contains(bench.Traps(), f.traps) {
		return fmt.Errorf("--traps %s: choose one of %s", f.traps, strings.Join(bench.Traps(), ", "))
	}
	if err := f.completeVM(c); err != nil {
		return err
	}
	if err := f.checkMany(); err != nil {
		return err
	}
	if f.quick && !c.Flags().Changed("runs") {
		f.runs = quickModeRuns
	}
	if f.runs < 1 || len(f.modes) == 0 {
		return errors.New("--runs, --modes: choose at least one")
	}
	return nil
}

// modeReport is what was measured.
type modeReport struct {
	command string
	date    time.Time
	traps   string
	rows    []bench.ModeRow

	timeline *bench.Timeline // of bench.TimelineBench, where that was run with a report
}

// run measures and reports.
func (f *modesFlags) run(ctx context.Context, out io.Writer) error {
	// Before anything is measured, so that a wrong path costs no time.
	files, err := createFiles([]reportTo[modeReport]{
		{f.json, func(r modeReport, w io.Writer) error { return bench.WriteModesJSON(w, r.rows) }},
		{f.html, func(r modeReport, w io.Writer) error {
			if f.many() {
				return bench.WriteModeGuestsHTML(w, r.command, r.date, r.rows)
			}
			return bench.WriteModesHTML(w, r.command, r.traps, r.date, r.rows, r.timeline)
		}},
	})
	if err != nil {
		return err
	}
	report := modeReport{command: "pvdrm " + strings.Join(os.Args[1:], " "), date: time.Now(), traps: f.traps}
	load := loadAverage()
	status := newStatus()
	var wrong error
	switch {
	case f.guests != nil:
		report.rows, wrong = f.runGuests(ctx, status.show)
	case f.contexts != nil:
		report.rows, wrong = f.runContexts(ctx, status.show)
	default:
		open := func(mode string) (bench.ModePlace, error) { return f.open(ctx, mode) }
		report.rows, wrong = bench.RunModes(ctx, f.modes, f.benches, open, f.runs, status.show)
	}
	if f.html != "" && !f.many() && slices.Contains(f.benches, bench.TimelineBench) && slices.Contains(f.modes, "fv") {
		status.show("the time line of " + bench.TimelineBench)
		t, err := bench.RecordTimeline(bench.TimelineBench)
		wrong = errors.Join(wrong, err)
		report.timeline = &t
	}
	status.clear()
	if report.rows == nil {
		return errors.Join(wrong, files.close())
	}
	fmt.Fprintf(out, "%s, %d runs, load before: %s\n", report.command, f.runs, load)
	if f.many() {
		err = bench.WriteModeGuests(out, report.rows)
	} else {
		err = bench.WriteModes(out, f.traps, report.rows)
	}
	if wrong != nil {
		fmt.Fprintln(os.Stderr, wrong)
	}
	return files.report(report, err, wrong != nil)
}

// open starts what runs a mode.
func (f *modesFlags) open(ctx context.Context, mode string) (bench.ModePlace, error) {
	args, config := []string{"run", "--", "gdev", "agent"}, bench.Switches(bench.Full)
	switch mode {
	case bench.PVDRMNativeMode:
		args = []string{benchNative}
	case bench.PVDRMMode:
		config = bench.Switches("nopool")
	case bench.PVDRMPoolMode:
	default:
		traps, separate := bench.Separate(mode, f.traps)
		if !separate {
			return bench.OpenMode(mode)
		}
		args = append([]string{"run", "--interface", mode, "--traps", traps, "--vram", modeVRAM}, args[1:]...)
	}
	separate := len(args) > 1 // of a process of its own
	if f.vm && separate {
		args = append(f.machine(), args[1:]...)
	}
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	a, err := startAgent(ctx, exec.Command(self, args...))
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", mode, err)
	}
	m, _ := gpuvm.ModeOf(mode)
	return &agentMode{mode: mode, agent: a, config: config, multi: m.Multi, vm: f.vm && separate}, nil
}

// machine are the arguments that begin those of a machine.
func (f *modesFlags) machine() []string {
	return []string{"up", "--console=false", "--qemu", f.qemu, "--accel", f.accel, "--memory", strconv.Itoa(f.memory)}
}

// agentMode runs programs in a mode by an agent, in a guest that is a process.
type agentMode struct {
	mode   string
	agent  *agentProcess
	config string
	multi  bool
	vm     bool
}

// modeVRAM is the memory of each card, as much as one in this process has.
const modeVRAM = "1G"

// RunMode implements bench.ModePlace.
func (m *agentMode) RunMode(ctx context.Context, name string) ([]bench.ModeRow, error) {
	a, err := m.agent.Do(ctx, agent.Request{Bench: name, Config: m.config})
	if err != nil {
		return nil, err
	}
	if a.Result == nil {
		return nil, errors.New("the agent answered without a result")
	}
	if a.Result.Error != "" {
		err = fmt.Errorf("%s in mode %s: %s", name, m.mode, a.Result.Error)
	}
	rows := bench.ModeRows(m.mode, *a.Result)
	if a.Phases != nil {
		rows = bench.CountedRows(m.mode, *a.Result, a.Phases, m.multi)
	}
	for i := range rows {
		rows[i].VM = m.vm
	}
	return rows, err
}

// Close implements bench.ModePlace.
func (m *agentMode) Close() error { return m.agent.stop() }
