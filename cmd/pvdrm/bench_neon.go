package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/channels"
	"pvdrm/internal/bench"
)

// neonFlags are those of `pvdrm bench neon`.
type neonFlags struct {
	dev      deviceFlags
	simulate bool
	policies []string
	requests []time.Duration
	length   time.Duration
	json     string
	html     string
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
for a guest whose slice it is, as theirs does. Without it, on the device itself: guests keep
some kernels queued, and the experiments are alone and pair. On the software GPU
guests cannot have the engine together: direct access is a GPU for each, whose
threads Linux schedules, and dfq serves guests one after the other.`,
		Example: "  pvdrm bench neon --simulate --html neon.html\n  pvdrm bench neon --requests 300us,1ms --length 2s",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("length") && !f.simulate {
				f.length = 2 * time.Second
			}
			if f.length < 100*time.Millisecond || f.length > time.Hour || len(f.policies) == 0 || len(f.requests) == 0 {
				return usageError{errors.New("--length: choose 100ms to 1h; --policies, --requests: name at least one")}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.BoolVar(&f.simulate, "simulate", false, "in virtual time, without a GPU")
	fl.StringSliceVar(&f.policies, "policies", []string{"timeslice", "dtimeslice", "dfq", "dfq-roundrobin", "band"}, "policies to compare with direct access")
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
	if f.simulate {
		r.Rows, err = f.simulated()
	} else {
		r.Rows, err = f.measured(ctx, g)
	}
	if err != nil {
		return errors.Join(err, files.close())
	}
	return files.report(r, r.WriteText(out), false)
}

// simulated simulates all experiments.
func (f *neonFlags) simulated() (rows []bench.NeonRow, err error) {
	for _, request := range f.requests {
		for _, x := range []struct {
			experiment string
			others     []time.Duration
		}{
			{experiment: bench.NeonAlone}, {experiment: bench.NeonPair, others: neonOthers[:1]}, {experiment: bench.NeonPair, others: neonOthers[1:2]},
			{experiment: bench.NeonFour, others: neonOthers},
		} {
			more, err := f.simulation(x.experiment, append([]time.Duration{request}, x.others...), 0)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	for _, off := range neonOff {
		more, err := f.simulation(bench.NeonOff, []time.Duration{neonOthers[1], neonOthers[0]}, off)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	slices.SortStableFunc(rows, func(a, b bench.NeonRow) int { return strings.Compare(a.Experiment, b.Experiment) })
	return rows, nil
}

// simulation simulates one experiment, with direct access and under each policy.
func (f *neonFlags) simulation(experiment string, requests []time.Duration, off float64) (rows []bench.NeonRow, err error) {
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
	for i, d := range requests {
		guests = append(guests, channels.Guest{Request: d})
		if i == 0 {
			guests[i].Off = off
		}
		rate, _, err := rates(channels.Direct, guests[i:])
		if err != nil {
			return nil, err
		}
		alone = append(alone, rate...)
	}
	direct := 0.0
	for _, policy := range append([]string{channels.Direct}, f.policies...) {
		all, denied, err := rates(policy, guests)
		if err != nil {
			return nil, err
		}
		row := bench.NewNeonRow(experiment, "simulation", policy, requests, off, all, alone, direct)
		row.Denied = denied
		direct = row.Direct
		rows = append(rows, row)
	}
	return rows, nil
}

// measured runs the experiments alone and pair on the device.
func (f *neonFlags) measured(ctx context.Context, g *global) (rows []bench.NeonRow, err error) {
	log, err := g.logger()
	if err != nil {
		return nil, err
	}
	beside := neonOthers[1]
	fair := fairFlags{dev: f.dev, workloads: []string{beside.String()}}
	for _, d := range f.requests {
		if d != beside {
			fair.workloads = append(fair.workloads, d.String())
		}
	}
	if err := fair.calibrate(ctx); err != nil {
		return nil, err
	}
	alone := map[time.Duration]float64{}
	for _, d := range append([]time.Duration{beside}, f.requests...) {
		if alone[d], err = fair.one(ctx, "", d.String(), f.length); err != nil {
			return nil, err
		}
	}
	for _, d := range f.requests {
		for _, requests := range [][]time.Duration{{d}, {d, beside}} {
			more, err := f.contests(ctx, log, &fair, requests, alone)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	slices.SortStableFunc(rows, func(a, b bench.NeonRow) int { return strings.Compare(a.Experiment, b.Experiment) })
	return rows, nil
}

// contests has guests with requests of some lengths share the GPU, with direct access and under each
// policy.
func (f *neonFlags) contests(ctx context.Context, log *zap.Logger, fair *fairFlags, requests []time.Duration, alone map[time.Duration]float64) (rows []bench.NeonRow, err error) {
	experiment := bench.NeonAlone
	if len(requests) > 1 {
		experiment = bench.NeonPair
	}
	direct := 0.0
	for _, policy := range append([]string{bench.None}, f.policies...) {
		progress("%v, %s", requests, policy)
		var workloads []string
		var rates, base []float64
		for _, d := range requests {
			workloads, base = append(workloads, d.String()), append(base, alone[d])
		}
		if rates, err = fair.rates(ctx, log, policy, workloads, f.length); err != nil {
			return nil, err
		}
		name := policy
		if policy == bench.None {
			name = channels.Direct
		}
		row := bench.NewNeonRow(experiment, f.dev.device.String(), name, requests, 0, rates, base, direct)
		direct = row.Direct
		rows = append(rows, row)
	}
	return rows, nil
}

// rates are the kernels a second of guests that share the GPU for a while.
func (f *fairFlags) rates(ctx context.Context, log *zap.Logger, policy string, workloads []string, length time.Duration) (rates []float64, err error) {
	x, err := f.contest(ctx, log, policy, workloads, slices.Repeat([]int{1}, len(workloads)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.end()) }()
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	counts, err := x.spinners.finish(ctx)
	for _, c := range counts {
		rates = append(rates, c.perSecond())
	}
	return rates, err
}
