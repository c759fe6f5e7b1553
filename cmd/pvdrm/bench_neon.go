package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/channels"
	"pvdrm/internal/bench"
)

// neonFlags are those of `pvdrm bench neon`.
type neonFlags struct {
	dev      deviceFlags
	simulate bool
	policies []string
	// experiments are the names of those to make.
	experiments []string
	requests    []time.Duration
	length      time.Duration
	json        string
	html        string
}

// neonRequests are the lengths of Throttle's requests; those of the other guests are of programs that
// NEON's authors measured.
var neonRequests = []time.Duration{19 * time.Microsecond, 66 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond,
	600 * time.Microsecond, time.Millisecond, 1700 * time.Microsecond}

// neonOthers are the requests of the guests beside Throttle.
var neonOthers = []time.Duration{66 * time.Microsecond, 300 * time.Microsecond, 100 * time.Microsecond}

// neonOff are the parts of its time for which Throttle pauses in the last experiment.
var neonOff = []float64{0, 0.2, 0.4, 0.6, 0.8}

func newBenchNEON(g *global) *cobra.Command {
	var f neonFlags
	c := &cobra.Command{
		Use:   "neon",
		Short: "Compare disengaged scheduling with direct access to the GPU",
		Long: `NEON's experiments: Throttle, a guest with requests of one length, each of which it waits for,
is alone, beside one guest and beside three, and pauses for a part of its time beside a guest
that does not. Columns: slowdowns against being alone with direct access, and what all
guests get done (efficiency), against all with direct access.

With --simulate, in virtual time: a GPU that serves the channels of guests in turn and
stops no request, as NEON's authors found theirs to do. timeslice leaves the engine idle
for a guest whose slice it is, as theirs does. Without it, on the device itself. On the
software GPU guests cannot have the engine together: direct access is a GPU for each,
whose threads Linux schedules, and dfq serves guests one after the other.`,
		Example: "  pvdrm bench neon --simulate --html neon.html\n  pvdrm bench neon --device cuda --experiments pair,off --requests 100us,1ms",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("length") && !f.simulate {
				f.length = 2 * time.Second
			}
			if f.length < 100*time.Millisecond || f.length > time.Hour || len(f.policies) == 0 || len(f.requests) == 0 {
				return usageError{errors.New("--length: choose 100ms to 1h; --policies, --requests: name at least one")}
			}
			for _, e := range f.experiments {
				if !slices.Contains(bench.NeonExperiments, e) {
					return usageError{fmt.Errorf("--experiments: %q; choose of %s", e, strings.Join(bench.NeonExperiments, ", "))}
				}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.BoolVar(&f.simulate, "simulate", false, "in virtual time, without a GPU")
	fl.StringSliceVar(&f.policies, "policies", []string{"timeslice", "dtimeslice", "dfq", "dfq-roundrobin", "band"}, "policies to compare with direct access")
	fl.StringSliceVar(&f.experiments, "experiments", bench.NeonExperiments, "what to measure")
	fl.DurationSliceVar(&f.requests, "requests", neonRequests, "lengths of Throttle's requests")
	fl.DurationVar(&f.length, "length", 10*time.Second, "how long each run takes; on a device 2s, if it is not given")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with charts to this file")
	return c
}

func (f *neonFlags) run(ctx context.Context, g *global, out io.Writer) error {
	r := bench.NeonReport{Date: time.Now(), Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " ")}
	files, err := createFiles([]reportTo[bench.NeonReport]{{f.json, bench.NeonReport.WriteJSON}, {f.html, bench.NeonReport.WriteHTML}})
	if err != nil {
		return err
	}
	if err = f.experiment(ctx, g, &r); len(r.Rows) > 0 {
		err = errors.Join(err, r.WriteText(out))
	}
	return files.report(r, err, false)
}

// neonCase is an experiment with guests, Throttle the first.
type neonCase struct {
	experiment string
	requests   []time.Duration
	off        float64 // of Throttle
}

// cases lists the experiments.
func (f *neonFlags) cases() (all []neonCase) {
	for _, d := range f.requests {
		all = append(all, neonCase{experiment: bench.NeonAlone, requests: []time.Duration{d}},
			neonCase{experiment: bench.NeonPair, requests: []time.Duration{d, neonOthers[0]}},
			neonCase{experiment: bench.NeonPair, requests: []time.Duration{d, neonOthers[1]}},
			neonCase{experiment: bench.NeonFour, requests: append([]time.Duration{d}, neonOthers...)})
	}
	for _, off := range neonOff {
		all = append(all, neonCase{experiment: bench.NeonOff, requests: []time.Duration{neonOthers[1], neonOthers[0]}, off: off})
	}
	all = slices.DeleteFunc(all, func(x neonCase) bool { return !slices.Contains(f.experiments, x.experiment) })
	slices.SortStableFunc(all, func(a, b neonCase) int { return strings.Compare(a.experiment, b.experiment) })
	return all
}

// experiment makes all experiments. The report has what was measured until an error.
func (f *neonFlags) experiment(ctx context.Context, g *global, r *bench.NeonReport) error {
	run := f.simulation
	if !f.simulate {
		m, err := f.measure(ctx, g)
		if err != nil {
			return err
		}
		run = m.contest
	}
	for _, x := range f.cases() {
		direct := 0.0
		for _, policy := range append([]string{channels.Direct}, f.policies...) {
			row, err := run(x, policy, direct)
			if err != nil {
				return err
			}
			direct = row.Direct
			r.Rows = append(r.Rows, row)
		}
	}
	return nil
}

// simulation simulates an experiment under a policy.
func (f *neonFlags) simulation(x neonCase, policy string, direct float64) (row bench.NeonRow, err error) {
	rates := func(policy string, guests []channels.Guest) (all []float64, denied uint64, err error) {
		results, err := channels.Run(channels.Config{Policy: policy, Settings: sched.Settings{Keep: true}, Guests: guests, Length: f.length})
		if err != nil {
			return nil, 0, usageError{err}
		}
		for _, r := range results {
			all = append(all, float64(r.Requests)/f.length.Seconds())
			denied += r.Denied
		}
		return all, denied, nil
	}
	var guests []channels.Guest
	var alone []float64
	for i, d := range x.requests {
		guests = append(guests, channels.Guest{Request: d})
		if i == 0 {
			guests[i].Off = x.off
		}
		rate, _, err := rates(channels.Direct, guests[i:])
		if err != nil {
			return row, err
		}
		alone = append(alone, rate...)
	}
	all, denied, err := rates(policy, guests)
	if err != nil {
		return row, err
	}
	row = bench.NewNeonRow(x.experiment, "simulation", policy, x.requests, x.off, all, alone, direct)
	row.Denied = denied
	return row, nil
}
