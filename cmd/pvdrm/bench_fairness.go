package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/internal/bench"
)

// fairFlags are the flags of `pvdrm bench fairness`.
type fairFlags struct {
	dev       deviceFlags
	policies  []string
	workloads []string
	kernels   map[string]string // what gdev spin calls a workload
	guests    []int
	weights   []int
	length    time.Duration
	settle    time.Duration // before a run counts; 0 stands for settling
	turns     int           // rounds in which policies take turns
	rounds    int           // of one busy guest
	idle      int           // guests beside it
	quick     bool
	vm        bool // guests are virtual machines
	json      string
	html      string
}

// Windows in which shares are looked at.
var fairWindows = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second}

const (
	fairLength  = 10 * time.Second
	fairLeast   = 100 * time.Millisecond
	quickLength = 3 * time.Second
	// settling is the time before a run counts: the policy learns who is there.
	settling = time.Second
)

func newBenchFairness(g *global) *cobra.Command {
	var f fairFlags
	c := &cobra.Command{
		Use:   "fairness [flags]",
		Short: "Measure how local guests share the GPU under each policy",
		Long: `Run local guests (or, with --vm, virtual machines) that share the GPU through an arbiter: every other one launches
madd, a short kernel, the others long-madd, one of fifteen times the work, each
again and again. For each policy and number of guests the table has each guest's
part of the GPU time that all of them used, what its weight entitles it to, the
window that was furthest from that, in points, and how many kernels it ran.

A policy with ` + wholeCommands + ` after its name does not preempt, so band and band` + wholeCommands + ` show what
preemption gains and costs, where the device can preempt (the software GPU).

Without preemption a window cannot be met better than to a kernel's length: of two
guests with kernels of 5 ms, one may be 2.5 points off in 100 ms and be right. The
column unavoidable has that of kernels that all take as long as the longest do on
average; ideal has the worst window of a scheduler that runs the kernels of this run,
knows their lengths, has them at hand at any time and loses no time.

With the policy none there is no arbiter: nothing is known of shares then, but a table
has what work the guests get done under each policy, beside none. A software GPU
each guest then has for itself, so that this says something of others only.

Then, for each workload, all guests run that, and the policies take turns while they
do, in rounds of two short turns each: what a policy costs beside FIFO.

Then what one busy guest loses, under the last of the policies but none: under an arbiter
against without one, and beside idle guests against alone, with the memory of
an idle backend.`,
		Example: "  pvdrm bench fairness --quick\n  pvdrm bench fairness --policies band --weights 50,30,20\n  pvdrm bench fairness --vm --policies fifo,band --guests 2 --rounds 0 --idle 0\n  pvdrm bench fairness --policies band,wfq,priority,elastic,division --guests 4\n  pvdrm bench fairness --device cuda --workloads 100us,1500us --policies none,band --guests 2\n  pvdrm bench fairness --policies band --workloads gl:shader,gl:shader@160x120 --guests 2 --rounds 0",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick {
				for name, set := range map[string]func(){
					"length": func() { f.length = quickLength },
					"turns":  func() { f.turns = quickTurns },
					"rounds": func() { f.rounds = quickFairRounds },
					"idle":   func() { f.idle = quickIdle },
				} {
					if !c.Flags().Changed(name) {
						set()
					}
				}
			}
			if f.turns < 0 || f.rounds < 0 || f.idle < 0 {
				return usageError{errors.New("--turns, --rounds, --idle: at least 0")}
			}
			if len(f.policies) == 0 || len(f.workloads) == 0 {
				return usageError{errors.New("--policies, --workloads: name at least one")}
			}
			if f.length < fairLeast {
				return usageError{fmt.Errorf("--length: at least %v", fairLeast)}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.policies, "policies", []string{"fifo", "credit", "band" + wholeCommands, "band"}, "policies to compare, with "+wholeCommands+" after those that are not to preempt; fifo first gives the others something to compare their throughput with, none first those without an arbiter")
	fl.StringSliceVar(&f.workloads, "workloads", []string{"madd", "long-madd"}, "what the guests run in turn: madd, long-madd, times such as 100us for kernels of about that length, endless, either with /1 behind it for one block in place of enough to fill a GPU, or gl:SCENE[@WIDTHxHEIGHT] for a virtual machine that draws a scene of glscene's")
	fl.IntSliceVar(&f.guests, "guests", []int{2, 4, 8}, "numbers of guests")
	fl.IntSliceVar(&f.weights, "weights", nil, "weights of the guests, in place of --guests with equal ones")
	fl.IntVar(&f.turns, "turns", fairTurns, "rounds in which the policies take turns; 0 leaves that out")
	fl.IntVar(&f.rounds, "rounds", fairRounds, "rounds in which one busy guest is measured; 0 leaves that out")
	fl.IntVar(&f.idle, "idle", fairIdle, "idle guests beside which a busy one is measured; 0 leaves that out")
	fl.DurationVar(&f.length, "length", fairLength, "how long each run is looked at")
	fl.BoolVar(&f.vm, "vm", false, "each guest is a virtual machine, in place of a local guest; see --idle")
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("runs of %v, %d and %d rounds, %d idle guests", quickLength, quickTurns, quickFairRounds, quickIdle))
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with charts of usage over time to this file")
	return c
}

func (f *fairFlags) run(ctx context.Context, g *global, out io.Writer) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	sets, err := f.sets()
	if err != nil {
		return err
	}
	if err := f.calibrate(ctx); err != nil {
		return err
	}
	report := bench.FairReport{Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " "), Date: time.Now()}
	var alone map[string]float64
	if slices.Contains(f.policies, bench.None) {
		if alone, err = f.alone(ctx); err != nil {
			return err
		}
	}
	for _, weights := range sets {
		if err := f.compare(ctx, log, weights, alone, &report); err != nil {
			return err
		}
	}
	f.policies = slices.DeleteFunc(f.policies, func(p string) bool { return p == bench.None })
	if report.Turns, err = f.takeTurns(ctx, log, sets); err != nil {
		return err
	}
	// One guest has nobody to share with: one policy, the last, stands for all.
	if n := len(f.policies); n > 0 {
		if report.Lone, err = f.lone(ctx, log, f.policies[n-1]); err != nil {
			return err
		}
	}
	if err := report.WriteText(out); err != nil {
		return err
	}
	write := func(path string, write func(io.Writer) error) error {
		if path == "" {
			return nil
		}
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	return errors.Join(write(f.json, report.WriteJSON), write(f.html, report.WriteHTML))
}

// sets are the weights of the guests in each experiment.
func (f *fairFlags) sets() ([][]int, error) {
	if f.weights != nil {
		return [][]int{f.weights}, nil
	}
	var sets [][]int
	for _, n := range f.guests {
		if n < 1 {
			return nil, usageError{fmt.Errorf("--guests: %d", n)}
		}
		sets = append(sets, slices.Repeat([]int{1}, n))
	}
	return sets, nil
}

// compare runs the same guests under each policy.
func (f *fairFlags) compare(ctx context.Context, log *zap.Logger, weights []int, alone map[string]float64, report *bench.FairReport) error {
	var fifo, without *bench.FairRun
	for _, policy := range f.policies {
		progress("%s, %d guests", policy, len(weights))
		run, err := f.share(ctx, log, policy, weights)
		if err != nil {
			return err
		}
		switch policy {
		case bench.None:
			without = run
		case "fifo":
			fifo = run
		}
		if without != nil {
			if row, ok := bench.NewWorkRow(run, without, alone); ok {
				row.OneGPU = !f.dev.device.kind().private
				report.Work = append(report.Work, row)
			}
		}
		if policy == bench.None {
			continue // no run measured shares
		}
		report.Runs = append(report.Runs, run)
		report.Rows = append(report.Rows, run.Rows(fairWindows, fifo)...)
	}
	return nil
}

// calibrate finds out, of workloads that are times, what kernels take so long while
// nobody else uses the GPU.
func (f *fairFlags) calibrate(ctx context.Context) error {
	f.kernels = map[string]string{}
	for _, w := range f.workloads {
		f.kernels[w] = w
		length, _, _ := strings.Cut(w, "/") // and the number of blocks
		if _, err := time.ParseDuration(length); err != nil {
			continue
		}
		s, err := f.startSpinner(f.guestDevice("", "calibration", 1), w, "rounds")
		if err != nil {
			return err
		}
		rounds, err := s.line(ctx)
		if err = errors.Join(err, spinners{s}.end()); err != nil {
			return fmt.Errorf("a kernel of %s: %w", w, err)
		}
		f.kernels[w] = w + ":" + rounds
	}
	return nil
}

// alone is the kernels a second of each workload in a guest without others.
func (f *fairFlags) alone(ctx context.Context) (map[string]float64, error) {
	rates := map[string]float64{}
	for _, w := range f.workloads {
		progress("alone, %s", w)
		rate, err := f.one(ctx, "", w, f.length)
		if err != nil {
			return nil, err
		}
		rates[w] = rate
	}
	return rates, nil
}

// share has guests share the GPU for a while.
func (f *fairFlags) share(ctx context.Context, log *zap.Logger, policy string, weights []int) (_ *bench.FairRun, err error) {
	x, err := f.contest(ctx, log, policy, f.workloads, weights)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.end()) }()
	run, err := x.observe(ctx, policy, f.length)
	if err != nil {
		return nil, err
	}
	counts, err := x.spinners.finish(ctx)
	for i, c := range counts {
		run.Guests[i].Kernels, run.Guests[i].Ran = c.kernels, c.in
	}
	return run, err
}

// contest is guests that share the GPU.
type contest struct {
	*fairArbiter // nil without a policy
	spinners     spinners
	guests       []bench.FairGuest
}

// contest starts guests with workloads in turn, and returns when all are at work.
func (f *fairFlags) contest(ctx context.Context, log *zap.Logger, policy string, workloads []string, weights []int) (_ *contest, err error) {
	x, socket := &contest{}, ""
	if policy != bench.None {
		if x.fairArbiter, err = f.startArbiter(ctx, log, policy); err != nil {
			return nil, err
		}
		socket = x.socket
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.end())
		}
	}()
	for i, w := range weights {
		if w < 1 {
			return nil, usageError{fmt.Errorf("--weights: %d", w)}
		}
		guest := bench.FairGuest{Name: fmt.Sprintf("guest-%d", i+1), Workload: workloads[i%len(workloads)], Weight: uint32(w)}
		s, err := f.startSpinner(f.guestDevice(socket, guest.Name, guest.Weight), f.kernels[guest.Workload])
		if err != nil {
			return nil, err
		}
		x.spinners = append(x.spinners, s)
		x.guests = append(x.guests, guest)
	}
	if err := x.spinners.waitReady(ctx); err != nil {
		return nil, err
	}
	return x, pause(ctx, cmp.Or(f.settle, settling))
}

// observe looks at the guests for a while.
func (x *contest) observe(ctx context.Context, policy string, length time.Duration) (*bench.FairRun, error) {
	run := &bench.FairRun{Policy: policy, Guests: slices.Clone(x.guests), Length: length}
	if x.fairArbiter == nil {
		return run, pause(ctx, length)
	}
	start := x.log.begin()
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	for _, u := range x.log.uses() {
		i := slices.IndexFunc(run.Guests, func(g bench.FairGuest) bool { return g.Name == u.Guest })
		if i < 0 || u.Engine != arbiter.Compute {
			continue
		}
		to := u.At.Sub(start)
		run.Guests[i].Uses = append(run.Guests[i].Uses, bench.Use{From: to - u.Used, To: to, Kernels: int(u.Commands)})
	}
	return run, nil
}

func (x *contest) end() error {
	err := x.spinners.end()
	if x.fairArbiter != nil {
		err = errors.Join(err, x.stop())
	}
	return err
}

// guestDevice are the device flags of a guest. Without an arbiter's socket it is
// the sole user.
func (f *fairFlags) guestDevice(socket, name string, weight uint32) deviceFlags {
	dev := f.dev
	dev.arbiter, dev.guest, dev.weight = socket, name, weight
	return dev
}

// fairArbiter is an arbiter of this process, in a directory of its own.
type fairArbiter struct {
	*arbiterProcess
	dir    *runDir
	socket string
	log    *useLog
}

func (f *fairFlags) startArbiter(ctx context.Context, log *zap.Logger, policy string) (*fairArbiter, error) {
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	a := &fairArbiter{dir: dir, socket: dir.path(socketArbiter), log: &useLog{}}
	// It outlives ctx: the backends need it until they are down.
	if a.arbiterProcess, err = startArbiter(context.WithoutCancel(ctx), log, a.socket, policy, a.log.add); err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	return a, nil
}

func (a *fairArbiter) stop() error { return errors.Join(a.arbiterProcess.stop(), a.dir.remove()) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
