package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/division"
)

// divisionFlags are the flags of `pvdrm bench division`.
type divisionFlags struct {
	dev         deviceFlags
	experiments []string
	policies    []string
	guests      int
	runs        int
	scale       int
	json        string
	html        string
}

// divisionExperiments come from the paper on thread division, with smaller inputs: sides of
// products a sixteenth, of images a half, and options a thousandth. Half of the guests run each task.
// The two of kernels of one block are not the paper's: they leave processors idle where there are several.
var divisionExperiments = map[string][]string{
	"product-9k":          {"product:576"},
	"product-9k+14k":      {"product:576", "product:896"},
	"product-10k+14k":     {"product:640", "product:896"},
	"product-11k+13k":     {"product:704", "product:832"},
	"sobel-2560":          {"sobel:1280"},
	"sobel-8192":          {"sobel:4096"},
	"sobel-2560+8192":     {"sobel:1280", "sobel:4096"},
	"binomial-5m":         {"binomial:5000"},
	"binomial-10m":        {"binomial:10000"},
	"binomial-10m+20m":    {"binomial:10000", "binomial:20000"},
	"one-block":           {"block:10000000"},
	"one-block+product":   {"block:10000000", "product:704"},
	"product+sobel+trees": {"product:704", "sobel:4096", "binomial:10000"},
}

// divide, after a policy, has kernels give way between blocks only.
const divide = "+divide"

func newBenchDivision(g *global) *cobra.Command {
	var f divisionFlags
	names := slices.Sorted(maps.Keys(divisionExperiments))
	c := &cobra.Command{
		Use:   "division",
		Short: "Compare the times of equal long tasks under division, BAND and FIFO",
		Long: `Some guests begin one long kernel each at the same time. The fairer the policy, the less their
times differ: the table has the standard deviation of the times of equal tasks, as a part of their
mean, and the longest over the shortest, medians of the runs.

Policies are those of --policy, with ` + wholeCommands + ` where kernels are not to be stopped, and with ` + divide + `
where they are to give way between two blocks only, in place of at heads of loops; division always
does. A kernel that is alone is not divided. Results are checked.

With one-block the kernels have a single block: where the GPU runs on several processors, those of
several guests run at the same time, and "mean" is about "alone".

Experiments are named after those of the paper on thread division, whose inputs are larger:
  ` + strings.Join(names, "\n  "),
		Example: "  pvdrm bench division --html division.html\n  pvdrm bench division --experiments product-9k --runs 3 --policies fifo,band",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, e := range f.experiments {
				if divisionExperiments[e] == nil {
					return usageError{fmt.Errorf("--experiments: unknown experiment %q (want %s)", e, strings.Join(names, ", "))}
				}
			}
			if f.guests < 1 || f.guests > 64 || f.runs < 1 || f.runs > 1000 || f.scale < 1 || f.scale > 64 || len(f.policies) == 0 {
				return usageError{errors.New("--guests: choose 1 to 64; --runs: 1 to 1000; --scale: 1 to 64; --policies: name at least one")}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.experiments, "experiments", names, "experiments to run")
	fl.StringSliceVar(&f.policies, "policies", []string{"fifo", "band" + wholeCommands, "division", "band" + divide, "band"}, "policies to compare")
	fl.IntVar(&f.guests, "guests", 6, "guests, which have the experiment's tasks in turn")
	fl.IntVar(&f.runs, "runs", 10, "runs of each experiment under each policy")
	fl.IntVar(&f.scale, "scale", 1, "multiply the sides of squares by this, and options by its cube: for a GPU that is faster than a processor")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with box plots to this file")
	return c
}

func (f *divisionFlags) run(ctx context.Context, g *global, out io.Writer) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	r := bench.DivisionReport{Date: time.Now(), Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " ")}
	files, err := createFiles([]reportTo[bench.DivisionReport]{{f.json, bench.DivisionReport.WriteJSON}, {f.html, bench.DivisionReport.WriteHTML}})
	if err != nil {
		return err
	}
	for _, e := range f.experiments {
		for _, policy := range f.policies {
			progress("%s, %s", e, policy)
			row, err := f.measure(ctx, log, e, policy)
			if err != nil {
				return errors.Join(err, files.close())
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return files.report(r, r.WriteText(out), false)
}

// measure runs an experiment under a policy.
func (f *divisionFlags) measure(ctx context.Context, log *zap.Logger, experiment, policy string) (row bench.DivisionRow, err error) {
	fair := fairFlags{dev: f.dev}
	named, divided := strings.CutSuffix(policy, divide)
	fair.dev.divide = f.dev.divide || divided || named == "division"
	a, err := fair.startArbiter(ctx, log, named)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	tasks, err := f.tasks(experiment)
	if err != nil {
		return row, err
	}
	var guests spinners
	defer func() { err = errors.Join(err, guests.end()) }()
	for i := range f.guests {
		dev := fair.guestDevice(a.socket, fmt.Sprintf("guest-%d", i+1), 1)
		s, err := startGuest(dev.guest, append(append([]string{"run"}, dev.args()...), "--", "gdev", "division", tasks[i%len(tasks)]))
		if err != nil {
			return row, err
		}
		guests = append(guests, s)
	}
	if err := guests.waitReady(ctx); err != nil {
		return row, err
	}
	var alone []time.Duration
	for i := range min(len(tasks), f.guests) {
		times, err := guests[i : i+1].task(ctx)
		if err != nil {
			return row, err
		}
		alone = append(alone, times[0])
	}
	var runs [][]bench.DivisionTask
	for range f.runs {
		times, err := guests.task(ctx)
		if err != nil {
			return row, err
		}
		var run []bench.DivisionTask
		for i, t := range times {
			run = append(run, bench.DivisionTask{Kind: tasks[i%len(tasks)], Took: t})
		}
		runs = append(runs, run)
	}
	return bench.NewDivisionRow(experiment, policy, runs, alone), guests.verified(ctx)
}

// tasks returns the tasks of an experiment, as large as --scale asks for.
func (f *divisionFlags) tasks(experiment string) (list []string, err error) {
	for _, name := range divisionExperiments[experiment] {
		kernel, size, _ := strings.Cut(name, ":")
		n, err := strconv.Atoi(size)
		if err != nil {
			return nil, err
		}
		factor := f.scale
		if kernel == "binomial" {
			factor *= f.scale * f.scale
		}
		list = append(list, fmt.Sprintf("%s:%d", kernel, n*factor))
	}
	return list, nil
}

// task has all guests run their tasks at the same time, and returns how long each took.
func (all spinners) task(ctx context.Context) (times []time.Duration, err error) {
	for _, s := range all {
		if _, err := io.WriteString(s.stdin, "\n"); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, errors.Join(err, errSaidAbove))
		}
	}
	for _, s := range all {
		line, err := s.line(ctx)
		var ns int64
		if err == nil {
			ns, err = strconv.ParseInt(line, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%s said %q: %w", s.name, line, errors.Join(err, errSaidAbove))
		}
		times = append(times, time.Duration(ns))
	}
	return times, nil
}

// verified ends the guests' input, and returns an error if a result is wrong.
func (all spinners) verified(ctx context.Context) error {
	for _, s := range all {
		_ = s.stdin.Close() // which ends it
	}
	for _, s := range all {
		if line, err := s.line(ctx); err != nil || line != division.Verified {
			return fmt.Errorf("%s said %q at its end: %w", s.name, line, errors.Join(err, errSaidAbove))
		}
	}
	return nil
}
