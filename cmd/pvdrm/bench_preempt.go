package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/preempt"
)

// preemptFlags are the flags of `pvdrm bench preempt`.
type preemptFlags struct {
	dev      deviceFlags
	policies []string
	count    int
	pause    time.Duration
	replay   bool
	both     bool
	json     string
	html     string
}

func newBenchPreempt(g *global) *cobra.Command {
	var f preemptFlags
	c := &cobra.Command{
		Use:   "preempt",
		Short: "Measure how fast an endless kernel leaves the GPU for another guest, and goes on",
		Long: `Two guests share the GPU. One runs a kernel that never ends, on the whole GPU. The other
launches a short kernel, on the whole GPU, too, now and then.

  alone   the short kernel without the endless one: what the rest costs
  off     the short kernel beside the endless one, from its launch until its program
          knows that it has ended; the policy's slice for the endless one is in it
  on      from the time at which the short kernel ran until the endless one makes
          progress again, by the clock of the GPU
  replay  the same on a device that kills and replays in place of preempting: with
          --replay, or with --device cuda --sandbox off, where nothing can be preempted.
          The endless kernel is a task then, with --revoke-after 1ms. A
          worker that takes over takes half a second to be replaced, so --pause is 1s

With --automatic the same is measured once more with --automatic-points and a policy that stops no
kernel: the endless one looks at its signal, saves its state and leaves the GPU itself.

Times are in microseconds. "lost" counts short kernels beside which the endless one ran
on: on a GPU that runs both at the same time there is nothing to measure.`,
		Example: "  pvdrm bench preempt\n  pvdrm bench preempt --count 1000 --policies band,wfq --json preempt.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.count < 1 || f.count > 100_000 || f.pause < 0 {
				return usageError{errors.New("--count: choose 1 to 100000; --pause: at least 0")}
			}
			if f.replay && !f.dev.device.kind().workers {
				return usageError{fmt.Errorf("--replay: the device %s stops kernels with their state, and kills none", f.dev.device.String())}
			}
			if f.replay && !c.Flags().Changed("pause") {
				f.pause = time.Second // in which the next worker starts
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.policies, "policies", []string{"band"}, "policies to compare; they must preempt")
	fl.IntVar(&f.count, "count", 300, "short kernels")
	fl.DurationVar(&f.pause, "pause", 7*time.Millisecond, "time between two of them")
	fl.BoolVar(&f.replay, "replay", false, "kill and replay, in place of preempting (--device cuda)")
	fl.BoolVar(&f.both, "automatic", false, "measure with --automatic-points, too")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with a chart to this file")
	return c
}

func (f *preemptFlags) run(ctx context.Context, g *global, out io.Writer) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	r := bench.PreemptReport{Date: time.Now(), Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " ")}
	files, err := createFiles([]reportTo[bench.PreemptReport]{{f.json, bench.PreemptReport.WriteJSON}, {f.html, bench.PreemptReport.WriteHTML}})
	if err != nil {
		return err
	}
	for _, policy := range f.policies {
		if f.replay {
			policy += ":whole"
		}
		rows, err := f.measure(ctx, log, policy)
		if err == nil && f.both {
			own := *f
			own.dev.points = true
			var more []bench.PreemptRow
			more, err = own.measure(ctx, log, strings.TrimSuffix(policy, wholeCommands)+wholeCommands)
			for i := range more {
				more[i].Policy += automatic
			}
			rows = append(rows, more...)
		}
		if err != nil {
			return errors.Join(err, files.close())
		}
		r.Rows = append(r.Rows, rows...)
	}
	return files.report(r, r.WriteText(out), false)
}

// automatic stands behind the policy of a row with --automatic-points.
const automatic = "+points"

// measure has the guests share the GPU under a policy.
func (f *preemptFlags) measure(ctx context.Context, log *zap.Logger, policy string) (rows []bench.PreemptRow, err error) {
	fair := fairFlags{dev: f.dev}
	a, err := fair.startArbiter(ctx, log, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	device := f.dev.device.String()

	progress("%s, alone", policy)
	probes, err := f.probe(ctx, a.socket)
	if err != nil {
		return nil, err
	}
	rows = append(rows, bench.NewPreemptRow(bench.PreemptAlone, device, policy, took(probes), 0))

	progress("%s, beside an endless kernel", policy)
	dev, how, on := fair.guestDevice(a.socket, "endless", 1), "endless", bench.PreemptOn
	if f.replay || !f.dev.points && !f.dev.device.kind().preempt(&f.dev) {
		dev.revoke, dev.revocations, how, on = time.Millisecond, 2*f.count, "task", bench.PreemptReplay
	}
	s, err := startGuest(dev.guest, append(append([]string{"run"}, dev.args()...), "--", "gdev", "preempt", how))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spinners{s}.end()) }()
	if err := (spinners{s}).waitReady(ctx); err != nil {
		return nil, err
	}
	if probes, err = f.probe(ctx, a.socket); err != nil {
		return nil, err
	}
	gaps, err := s.gaps(ctx)
	if err != nil {
		return nil, err
	}
	back, lost := resumed(probes, gaps)
	return append(rows, bench.NewPreemptRow(bench.PreemptOff, device, policy, took(probes), 0),
		bench.NewPreemptRow(on, device, policy, back, lost)), nil
}

// probe runs the short kernels in a guest of their own.
func (f *preemptFlags) probe(ctx context.Context, socket string) (all []preempt.Probe, err error) {
	dev := (&fairFlags{dev: f.dev}).guestDevice(socket, "short", 1)
	s, err := startGuest(dev.guest, append(append([]string{"run"}, dev.args()...), "--", "gdev", "preempt", "probe", fmt.Sprint(f.count), f.pause.String()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spinners{s}.end()) }()
	for range f.count {
		var p preempt.Probe
		line, err := s.line(ctx)
		if err == nil {
			_, err = fmt.Sscan(line, &p.Took, &p.At)
		}
		if err != nil {
			return nil, fmt.Errorf("the guest with short kernels said %q: %w", line, errors.Join(err, errSaidAbove))
		}
		all = append(all, p)
	}
	return all, nil
}

// gaps ends the endless kernel and returns its gaps.
func (s *spinner) gaps(ctx context.Context) (all []preempt.Gap, err error) {
	_ = s.stdin.Close() // which ends it
	for {
		line, err := s.line(ctx)
		if err == nil && line == "end" {
			return all, nil
		}
		var g preempt.Gap
		if err == nil {
			_, err = fmt.Sscan(line, &g.From, &g.To)
		}
		if err != nil {
			return nil, fmt.Errorf("the guest with the endless kernel said %q: %w", line, errors.Join(err, errSaidAbove))
		}
		all = append(all, g)
	}
}

func took(probes []preempt.Probe) (all []time.Duration) {
	for _, p := range probes {
		all = append(all, p.Took)
	}
	return all
}

// resumed returns how long after each short kernel the endless one made progress: to the end of the
// gap in which the short kernel ran. It counts the short kernels that ran in no gap.
func resumed(probes []preempt.Probe, gaps []preempt.Gap) (after []time.Duration, lost int) {
	i := 0
	for _, p := range probes {
		for i < len(gaps) && gaps[i].To < p.At {
			i++
		}
		if i == len(gaps) || gaps[i].From > p.At {
			lost++
			continue
		}
		after = append(after, time.Duration(gaps[i].To-p.At))
	}
	return after, lost
}
