package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/cmd/pvdrm/bench"
)

// fairFlags are the flags of `pvdrm bench fairness`.
type fairFlags struct {
	dev      deviceFlags
	policies []string
	guests   []int
	weights  []int
	length   time.Duration
	quick    bool
	json     string
	html     string
}

// Windows in which shares are looked at, and how often usage is sampled.
var fairWindows = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second}

const (
	fairSample  = 10 * time.Millisecond
	fairLength  = 10 * time.Second
	quickLength = 3 * time.Second
	// settling is the time before a run counts: the policy learns who is there.
	settling = time.Second
)

func newBenchFairness(g *global) *cobra.Command {
	var f fairFlags
	c := &cobra.Command{
		Use:   "fairness [flags]",
		Short: "Measure how local guests share the GPU under each policy",
		Long: `Run local guests that share the GPU through an arbiter: every other one launches
madd, a short kernel, the others long-madd, one of fifteen times the work, each
again and again. For each policy and number of guests the table has each guest's
part of the GPU time that all of them used, what its weight entitles it to, the
window that was furthest from that, in points, and how many kernels it ran.

Without preemption a window cannot be met better than to a kernel's length: of two
guests with kernels of 5 ms, one may be 2.5 points off in 100 ms and be right.`,
		Example: "  pvdrm bench fairness --quick\n  pvdrm bench fairness --policies band --weights 50,30,20",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick && !c.Flags().Changed("length") {
				f.length = quickLength
			}
			if f.length < fairWindows[0] {
				return usageError{fmt.Errorf("--length: at least %v", fairWindows[0])}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.policies, "policies", []string{"fifo", "credit", "band"}, "policies to compare; fifo first gives the others something to compare their throughput with")
	fl.IntSliceVar(&f.guests, "guests", []int{2, 4, 8}, "numbers of guests")
	fl.IntSliceVar(&f.weights, "weights", nil, "weights of the guests, in place of --guests with equal ones")
	fl.DurationVar(&f.length, "length", fairLength, "how long each run is looked at")
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("runs of %v", quickLength))
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with charts of usage over time to this file")
	return c
}

func (f *fairFlags) run(ctx context.Context, g *global, out io.Writer) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	var sets [][]int
	for _, n := range f.guests {
		if n < 1 {
			return usageError{fmt.Errorf("--guests: %d", n)}
		}
		equal := make([]int, n)
		for i := range equal {
			equal[i] = 1
		}
		sets = append(sets, equal)
	}
	if f.weights != nil {
		sets = [][]int{f.weights}
	}
	var runs []*bench.FairRun
	var rows []bench.FairRow
	for _, weights := range sets {
		var fifo *bench.FairRun
		for _, policy := range f.policies {
			progress("%s, %d guests", policy, len(weights))
			run, err := f.share(ctx, log, policy, weights)
			if err != nil {
				return err
			}
			if policy == "fifo" {
				fifo = run
			}
			runs = append(runs, run)
			rows = append(rows, run.Rows(fairWindows, fifo)...)
		}
	}
	if err := bench.WriteFairText(out, rows); err != nil {
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
	err = write(f.json, func(w io.Writer) error { return bench.WriteFairJSON(w, rows) })
	return errors.Join(err, write(f.html, func(w io.Writer) error {
		return bench.WriteFairHTML(w, strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " "), time.Now(), runs, rows)
	}))
}

// share has guests share the GPU for a while.
func (f *fairFlags) share(ctx context.Context, log *zap.Logger, policy string, weights []int) (_ *bench.FairRun, err error) {
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	server, err := arbiter.NewServer(arbiter.Config{GPUs: []arbiter.GPU{{Policy: policy}}, Log: log})
	if err != nil {
		return nil, usageError{fmt.Errorf("--policies: %w", err)}
	}
	const ownerOnly = 0o600
	socket := dir.path("arbiter")
	l, err := arbiter.Listen(socket, ownerOnly)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-served)
	}()

	run := &bench.FairRun{Policy: policy}
	var spinners []*spinner
	defer func() {
		for _, s := range spinners {
			s.kill()
		}
	}()
	for i, w := range weights {
		if w < 1 {
			return nil, usageError{fmt.Errorf("--weights: %d", w)}
		}
		guest := bench.FairGuest{Name: fmt.Sprintf("guest-%d", i+1), Workload: []string{"madd", "long-madd"}[i%2], Weight: uint32(w)}
		s, err := f.spin(socket, &guest)
		if err != nil {
			return nil, err
		}
		spinners = append(spinners, s)
		run.Guests = append(run.Guests, guest)
	}
	for i, s := range spinners {
		if err := s.waitReady(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", run.Guests[i].Name, err)
		}
	}
	if err := pause(ctx, settling); err != nil {
		return nil, err
	}
	before := make([]time.Duration, len(weights))
	copy(before, busy(server, run.Guests))
	start := time.Now()
	for time.Since(start) < f.length {
		if err := pause(ctx, fairSample); err != nil {
			return nil, err
		}
		run.At = append(run.At, time.Since(start))
		for i, b := range busy(server, run.Guests) {
			run.Guests[i].Busy = append(run.Guests[i].Busy, b-before[i])
		}
	}
	run.Elapsed = time.Since(start) + settling // the kernels that a guest counts began with the settling
	for i, s := range spinners {
		if run.Guests[i].Kernels, err = s.finish(); err != nil {
			return nil, fmt.Errorf("%s: %w", run.Guests[i].Name, err)
		}
	}
	return run, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// busy is the GPU time that each guest has used so far.
func busy(server *arbiter.Server, guests []bench.FairGuest) []time.Duration {
	used := make([]time.Duration, len(guests))
	for _, gpu := range server.Stats() {
		for _, st := range gpu.Guests {
			for i := range guests {
				if guests[i].Name == st.Name {
					used[i] = st.Engines[arbiter.Compute].Busy
				}
			}
		}
	}
	return used
}

// spinner is a local guest that launches one kernel again and again.
type spinner struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

// spin starts a guest.
func (f *fairFlags) spin(socket string, g *bench.FairGuest) (*spinner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	dev := f.dev
	dev.arbiter, dev.guest, dev.weight = socket, g.Name, g.Weight
	args := append(append([]string{"run"}, dev.args()...), "--", "gdev", "spin", g.Workload)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	// The main goroutine, which starts it, never leaves its thread; see main.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a guest: %w", err)
	}
	return &spinner{cmd, in, bufio.NewReader(out)}, nil
}

// waitReady returns when the guest has run its first kernel.
func (s *spinner) waitReady(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() }) // ends the read
	defer stop()
	line, err := s.stdout.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		return fmt.Errorf("it did not begin: %q, %w", line, errors.Join(err, ctx.Err(), errNotReady))
	}
	return nil
}

var errNotReady = errors.New("its errors are above")

// finish ends the guest and returns how many kernels it ran.
func (s *spinner) finish() (int, error) {
	_ = s.stdin.Close() // which ends it
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("its count is missing: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	return n, errors.Join(err, s.cmd.Wait())
}

// kill ends a guest that may have ended.
func (s *spinner) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
	}
}
