package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite"
)

// modesFlags are the flags of `pvdrm bench modes`.
type modesFlags struct {
	modes, benches []string
	runs           int
	quick          bool
	json           string
	traps          string
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
  fv-bar1       fv-opt with BAR1 mapped, too, but for the doorbells
  pv-bar1       pv-multicall with that

A guest is a driver in the same process, and a trap a call, or with --traps socket a
message to another thread and back: then the modes in which much traps take seconds.
docs/gpuvm.md explains the columns. Virtual machines of QEMU and PVDRM beside them are
not there yet; pvdrm bench measures PVDRM.

The exit code is 1 when a result is wrong.`,
		Example: "  pvdrm bench modes --quick --json modes.json\n  pvdrm bench modes --modes native,fv,fv-opt --bench madd,pincpy --traps socket",
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
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("%d runs", quickRuns))
	fl.StringVar(&f.traps, "traps", bench.TrapCall, "what a trap is: a call, or a message to another thread and back (socket)")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	return c
}

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
	if f.benches == nil {
		for _, b := range suite.All() {
			f.benches = append(f.benches, b.Name)
		}
	}
	if f.traps != bench.TrapCall && f.traps != bench.TrapSocket {
		return fmt.Errorf("--traps %s: choose %s or %s", f.traps, bench.TrapCall, bench.TrapSocket)
	}
	if f.quick && !c.Flags().Changed("runs") {
		f.runs = quickRuns
	}
	if f.runs < 1 || len(f.modes) == 0 {
		return errors.New("--runs, --modes: choose at least one")
	}
	return nil
}

// run measures and reports.
func (f *modesFlags) run(ctx context.Context, out io.Writer) error {
	var file io.WriteCloser
	if f.json != "" { // before anything is measured, so that a wrong path costs no time
		var err error
		if file, err = os.Create(f.json); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		defer file.Close()
	}
	status := newStatus()
	rows, wrong := bench.RunModes(ctx, f.modes, f.benches, f.traps, f.runs, status.show)
	status.clear()
	if rows == nil {
		return wrong
	}
	fmt.Fprintf(out, "pvdrm %s, %d runs, load before: %s\n", strings.Join(os.Args[1:], " "), f.runs, loadAverage())
	if err := bench.WriteModes(out, f.traps, rows); err != nil {
		return err
	}
	if file != nil {
		if err := errors.Join(bench.WriteModesJSON(file, rows), file.Close()); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if wrong != nil {
		fmt.Fprintln(os.Stderr, wrong)
		return exitError{1}
	}
	return nil
}
