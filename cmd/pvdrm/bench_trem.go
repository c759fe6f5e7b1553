package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/backend/sched/cluster"
)

// tremFlags are those of `pvdrm bench trem`.
type tremFlags struct {
	simulate  bool
	policies  []string
	loads     []float64
	gpus      []int
	latencies []time.Duration
	sla       time.Duration
	seeds     int
	limit     int
	keep      bool
	json      string
}

// tremRow is a line of its table and of --json.
type tremRow struct {
	Experiment  string  `json:"experiment"` // "simulation"
	Policy      string  `json:"policy"`
	Load        float64 `json:"load"`
	Mix         string  `json:"mix"`
	GPUs        int     `json:"gpus"`
	LatencyMS   float64 `json:"latency_ms"`
	Keep        bool    `json:"keep"`
	SLAMet      float64 `json:"sla_met"`
	Revocations int     `json:"revocations"`
	MostRevoked int     `json:"most_revoked"`
	Lost        float64 `json:"lost"`
}

func newBenchTReM(*global) *cobra.Command {
	f := tremFlags{}
	c := &cobra.Command{
		Use:   "trem --simulate",
		Short: "Simulate user-facing tasks with an SLA among batch tasks on several GPUs",
		Long: `Simulate TReM's workload in virtual time: jobs of user-facing tasks of 10 to 170 ms that
have to end within an SLA, and batch jobs of tasks of 46 to 311 s, in mixes of 80:20
and 50:50 jobs. No GPU is used. Policies:

  wait      user-facing tasks go first and wait for batch tasks that run
  priority  each user-facing task that finds no GPU takes one from a batch task
  elastic   user-facing tasks get as many GPUs as their SLA needs, by TReM's formula

A batch task that loses its GPU begins again, or goes on with --keep, as on a device
that preempts. Columns: the part of user-facing tasks that met the SLA, revocations in
all and of the task that had most, and the part of GPU time that they lost. Load is the
work that jobs bring, as a part of what the GPUs can do. The same seeds are in all rows.`,
		Example: "  pvdrm bench trem --simulate\n  pvdrm bench trem --simulate --policies elastic --gpus 4,16 --latencies 10ms,1s --keep",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if !f.simulate {
				return usageError{errors.New("give --simulate: revocation cannot be measured on a device yet")}
			}
			rows, err := f.rows()
			if err != nil {
				return err
			}
			if f.json != "" {
				if err := writeTReM(f.json, rows); err != nil {
					return err
				}
			}
			return printTReM(c.OutOrStdout(), rows)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.simulate, "simulate", false, "in virtual time, without a GPU; there is no other way yet")
	fl.StringSliceVar(&f.policies, "policies", cluster.Policies(), "policies to compare")
	fl.Float64SliceVar(&f.loads, "loads", []float64{0.25, 0.5, 1, 2}, "work offered, as parts of what the GPUs can do")
	fl.IntSliceVar(&f.gpus, "gpus", []int{4}, "numbers of GPUs")
	fl.DurationSliceVar(&f.latencies, "latencies", []time.Duration{22 * time.Millisecond}, "times from a revocation until the GPU is free; the default is TReM's")
	fl.DurationVar(&f.sla, "sla", 200*time.Millisecond, "longest response of a user-facing task")
	fl.IntVar(&f.seeds, "seeds", 5, "workloads to draw, of which the results are added")
	fl.IntVar(&f.limit, "revocation-limit", 0, "how often one task may be revoked; 0 is any number")
	fl.BoolVar(&f.keep, "keep", false, "a revoked task keeps what it has done")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	return c
}

// rows simulates all combinations.
func (f *tremFlags) rows() (rows []tremRow, err error) {
	if f.seeds < 1 || f.seeds > 1000 {
		return nil, usageError{errors.New("--seeds: choose 1 to 1000")}
	}
	for _, policy := range f.policies {
		for _, n := range f.gpus {
			for _, latency := range f.latencies {
				for _, mix := range cluster.Mixes {
					for _, load := range f.loads {
						row, err := f.row(cluster.Config{Policy: policy, Load: load, Mix: mix, GPUs: n, SLA: f.sla,
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
func (f *tremFlags) row(c cluster.Config) (tremRow, error) {
	if c.GPUs == 0 || c.Latency == 0 || c.Load == 0 || c.SLA == 0 {
		return tremRow{}, usageError{errors.New("--gpus, --latencies, --loads, --sla: choose more than 0")}
	}
	var sum cluster.Report
	for seed := range f.seeds {
		c.Seed = uint64(seed)
		r, err := cluster.Run(c)
		if err != nil {
			return tremRow{}, usageError{err}
		}
		sum.Add(r)
	}
	return tremRow{Experiment: "simulation", Policy: c.Policy, Load: c.Load, Mix: c.Mix.Name, GPUs: c.GPUs,
		LatencyMS: c.Latency.Seconds() * 1000, Keep: c.Keep, SLAMet: sum.SLAMet(),
		Revocations: sum.Revocations, MostRevoked: sum.MostRevoked, Lost: sum.LostPart()}, nil
}

// writeTReM writes rows to a file as JSON, one a line.
func writeTReM(path string, rows []tremRow) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	e := json.NewEncoder(file)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	return nil
}

func printTReM(out io.Writer, rows []tremRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tGPUs\tlatency\tmix\tload\tSLA met\trevocations\tmost\tlost\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%g ms\t%s\t%.2f\t%.2f %%\t%d\t%d\t%.2f %%\t\n", r.Policy, r.GPUs, r.LatencyMS, r.Mix, r.Load,
			r.SLAMet*percent, r.Revocations, r.MostRevoked, r.Lost*percent)
	}
	return w.Flush()
}
