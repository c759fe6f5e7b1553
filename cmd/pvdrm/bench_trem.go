package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
	"pvdrm/backend/sched/cluster"
	"pvdrm/internal/bench"
)

// tremFlags are those of `pvdrm bench trem`.
type tremFlags struct {
	dev       deviceFlags
	lengths   []time.Duration
	count     int
	simulate  bool
	policies  []string
	loads     []float64
	gpus      []int
	latencies []time.Duration
	seeds     int
	limit     int
	keep      bool
	json      string
	html      string
}

func newBenchTReM(g *global) *cobra.Command {
	f := tremFlags{}
	c := &cobra.Command{
		Use:   "trem",
		Short: "Measure user-facing tasks with an SLA among batch tasks, on a GPU or simulated on several",
		Long: `Without --simulate: a guest of class latency launches a short kernel now and then beside
one of class batch, which launches kernels of --lengths back to back. Rows show the
response of the short kernel, until its program knows that it has ended, and how often the
batch kernels had to leave, under fifo, which lets each run to its end, and elastic.

With --simulate, TReM's workload in virtual time: jobs of user-facing tasks of 10 to 170 ms that
have to end within an SLA, and batch jobs of tasks of 46 to 311 s, in mixes of 80:20
and 50:50 jobs. No GPU is used. Policies:

  wait      user-facing tasks go first and wait for batch tasks that run
  priority  each user-facing task that finds no GPU takes one from a batch task
  elastic   user-facing tasks get as many GPUs as their SLA needs, by TReM's formula

A batch task that loses its GPU begins again, or goes on with --keep, as on a device
that preempts. Columns: the part of user-facing tasks that met the SLA, revocations in
all and of the task that had most, the part of GPU time that they lost, and how much longer
batch jobs took than under wait (median and worst). Load is the work that jobs bring, as a
part of what the GPUs can do. The same seeds are in all rows.`,
		Example: "  pvdrm bench trem --lengths 10ms,1s\n  pvdrm bench trem --simulate --html trem.html\n  pvdrm bench trem --simulate --policies elastic --gpus 4,16 --latencies 10ms,1s --keep",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.BoolVar(&f.simulate, "simulate", false, "in virtual time, without a GPU")
	fl.DurationSliceVar(&f.lengths, "lengths", []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}, "lengths of the batch kernels, without --simulate")
	fl.IntVar(&f.count, "count", 20, "short kernels for each of them")
	fl.StringSliceVar(&f.policies, "policies", cluster.Policies(), "policies to compare with --simulate")
	fl.Float64SliceVar(&f.loads, "loads", []float64{0.25, 0.5, 1, 2}, "work offered, as parts of what the GPUs can do")
	fl.IntSliceVar(&f.gpus, "gpus", []int{4}, "numbers of GPUs")
	fl.DurationSliceVar(&f.latencies, "latencies", []time.Duration{22 * time.Millisecond}, "times from a revocation until the GPU is free; the default is TReM's")
	fl.IntVar(&f.seeds, "seeds", 5, "workloads to draw, of which the results are added")
	fl.IntVar(&f.limit, "revocation-limit", 0, "how often one task may be revoked; 0 is any number")
	fl.BoolVar(&f.keep, "keep", false, "a revoked task keeps what it has done")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with charts, beside the published figures, to this file")
	return c
}

// sla is the longest response of a user-facing task.
func (f *tremFlags) sla() time.Duration { return cmp.Or(f.dev.service.sla, sched.DefaultSLA) }

// rows simulates all combinations.
func (f *tremFlags) rows() (rows []bench.TReMRow, err error) {
	if f.seeds < 1 || f.seeds > 1000 {
		return nil, usageError{errors.New("--seeds: choose 1 to 1000")}
	}
	for _, policy := range f.policies {
		for _, n := range f.gpus {
			for _, latency := range f.latencies {
				for _, mix := range cluster.Mixes {
					for _, load := range f.loads {
						row, err := f.row(cluster.Config{Policy: policy, Load: load, Mix: mix, GPUs: n, SLA: f.sla(),
							Latency: latency, MaxRevocations: f.limit, Keep: f.keep})
						if err != nil {
							return nil, err
						}
						rows = append(rows, row)
					}
				}
			}
		}
	}
	return rows, nil
}

// row simulates one combination, with all seeds.
func (f *tremFlags) row(c cluster.Config) (bench.TReMRow, error) {
	if c.GPUs == 0 || c.Latency == 0 || c.Load == 0 {
		return bench.TReMRow{}, usageError{errors.New("--gpus, --latencies, --loads: choose more than 0")}
	}
	var sum, wait cluster.Report
	for seed := range f.seeds {
		c.Seed = uint64(seed)
		r, err := cluster.Run(c)
		if err != nil {
			return bench.TReMRow{}, usageError{err}
		}
		sum.Add(r)
		without := c
		without.Policy = cluster.Wait
		if r, err = cluster.Run(without); err != nil {
			return bench.TReMRow{}, err
		}
		wait.Add(r)
	}
	var longer []float64
	for i, took := range sum.Batch {
		longer = append(longer, took.Seconds()/wait.Batch[i].Seconds())
	}
	slices.Sort(longer)
	median, worst := 0.0, 0.0
	if n := len(longer); n > 0 {
		median, worst = longer[n/2], longer[n-1]
	}
	return bench.TReMRow{Experiment: bench.TReMSimulation, Policy: c.Policy, Load: c.Load, Mix: c.Mix.Name, GPUs: c.GPUs,
		LatencyMS: c.Latency.Seconds() * 1000, Keep: c.Keep, SLAMet: sum.SLAMet(),
		Revocations: sum.Revocations, MostRevoked: sum.MostRevoked, Lost: sum.LostPart(),
		BatchMedian: median, BatchWorst: worst}, nil
}

// run simulates or measures, and reports.
func (f *tremFlags) run(ctx context.Context, g *global, out io.Writer) error {
	report := bench.TReMReport{Date: time.Now(), Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " ")}
	var err error
	if f.simulate {
		report.Rows, err = f.rows()
	} else {
		report.Rows, err = f.responses(ctx, g)
	}
	if err != nil {
		return err
	}
	files, err := createFiles([]reportTo[bench.TReMReport]{{f.json, bench.TReMReport.WriteJSON}, {f.html, bench.TReMReport.WriteHTML}})
	if err != nil {
		return err
	}
	return files.report(report, report.WriteText(out), false)
}

// responses measures on a device.
func (f *tremFlags) responses(ctx context.Context, g *global) (rows []bench.TReMRow, err error) {
	if f.count < 1 || f.count > 100_000 {
		return nil, usageError{errors.New("--count: choose 1 to 100000")}
	}
	log, err := g.logger()
	if err != nil {
		return nil, err
	}
	fair := fairFlags{dev: f.dev}
	for _, length := range f.lengths {
		fair.workloads = append(fair.workloads, length.String())
	}
	if err := fair.calibrate(ctx); err != nil {
		return nil, err
	}
	for _, policy := range []string{"fifo", "elastic"} {
		for _, length := range f.lengths {
			progress("%s, beside kernels of %v", policy, length)
			row, err := f.response(ctx, log, &fair, policy, length)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// response measures beside batch kernels of a length.
func (f *tremFlags) response(ctx context.Context, log *zap.Logger, fair *fairFlags, policy string, length time.Duration) (row bench.TReMRow, err error) {
	a, err := fair.startArbiter(ctx, log, policy)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	s, err := fair.startSpinner(fair.guestDevice(a.socket, "batch", 1), fair.kernels[length.String()])
	if err != nil {
		return row, err
	}
	batch := spinners{s}
	defer func() { err = errors.Join(err, batch.end()) }()
	if err := batch.waitReady(ctx); err != nil {
		return row, err
	}
	if err := batch.begin(); err != nil {
		return row, err
	}
	short := preemptFlags{dev: f.dev, count: f.count, pause: 20 * time.Millisecond}
	short.dev.service.class = sched.Latency
	probes, err := short.probe(ctx, a.socket)
	if err != nil {
		return row, err
	}
	preempted := 0
	for _, g := range a.server.Stats()[0].Guests {
		if g.Name == "batch" {
			preempted = int(g.Engines[arbiter.Compute].Preempted)
		}
	}
	if _, err := batch.finish(ctx); err != nil {
		return row, err
	}
	return bench.NewTReMResponse(f.dev.device.String(), policy, length, f.sla(), took(probes), preempted), nil
}
