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
	"go.uber.org/zap"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

// gloopFlags are the flags of `pvdrm bench gloop`.
type gloopFlags struct {
	dev      deviceFlags
	figures  []string
	programs []string
	policy   string
	dir      string
	text     int // MB that grep searches
	names    []string
	versions []gloop.Version
	rounds   int
	scale    int
	most     int // guests at a time
	length   time.Duration
	quick    bool
	vm       bool
	bounce   bool
	json     string
	html     string
}

func newBenchGLoop(g *global) *cobra.Command {
	var f gloopFlags
	c := &cobra.Command{
		Use:   "gloop",
		Short: "Measure GPU programs that are event loops and give the GPU away between callbacks",
		Long: `Run the programs with which GLoop was measured (gdev gloop --help names them), in their versions:
vanilla, gloop, gloop-noshared (no slots in shared memory) and split (a launch for each
scheduling point). Each result is checked. Figures are those of the thesis:

  5.5         alone, against vanilla; throttle against split
  5.6, 5.7    grep, cold and warm, with --dir or --text besides GNU grep on the same processors; image matching
  5.9         1 to --most throttles with more threads, other slices, more blocks
  5.10        1 to --most instances of tpacf and grep
  5.11, 5.12  shares of tpacf and of grep among 1, 3 and 7 throttles of equal weight
  5.13, 5.14  the same where tpacf and grep are entitled to 66 %
  5.15, 5.16  servers that are entitled to 20 %, beside throttle and beside three tpacf
  5.17        1 to 6 lavaMD, against vanilla, which the device preempts if it can; auto is vanilla
              where it does not, with --automatic-points
  start       a short kernel of another guest beside a throttle (p99)

Runs that are compared take turns, and ratios are taken within a round. Shares are of
windows of 200 ms. Guests are local ones, or, with --vm, virtual machines.`,
		Example: "  pvdrm bench gloop --quick --html gloop.html\n  pvdrm bench gloop --figures 5.5 --programs throttle --device cuda\n  pvdrm bench gloop --figures 5.6 --dir /usr/include",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c); err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.figures, "figures", bench.GLoopFigures, "what to measure")
	fl.StringSliceVar(&f.programs, "programs", nil, "programs of figure 5.5 (default: all)")
	fl.StringVar(&f.policy, "policy", "wfq:10ms", "who runs next where guests share the GPU, see pvdrm arbiter --policy")
	fl.StringVar(&f.dir, "dir", "", "directory that grep searches, in the guest (default: files that it makes)")
	fl.IntVar(&f.text, "text", 0, "have grep search so many MB of text in files that the bench makes, on this machine")
	fl.StringSliceVar(&f.names, "versions", []string{"vanilla", "gloop", "gloop-noshared", "split"}, "versions of figures 5.5 to 5.7, of which the first is vanilla; throttle is run in all")
	fl.IntVar(&f.rounds, "rounds", 11, "rounds, of which the first is thrown away")
	fl.IntVar(&f.scale, "scale", 1, "times the work, for a faster GPU: 1 to 8")
	fl.IntVar(&f.most, "most", 8, "most guests at a time: 2 to 8")
	fl.DurationVar(&f.length, "length", 10*time.Second, "how long shares are looked at")
	fl.BoolVar(&f.quick, "quick", false, "3 rounds, smaller inputs, fewer cases, shares of 2 s, at most 4 guests")
	fl.BoolVar(&f.vm, "vm", false, "each guest is a virtual machine, in place of a local guest")
	fl.BoolVar(&f.bounce, "bounce", false, "files and sockets are copied to device memory, in place of being read from granted memory")
	fl.StringVar(&f.json, "json", "", "write the results to this file, one JSON object a line")
	fl.StringVar(&f.html, "html", "", "write a report with charts to this file")
	return c
}

// complete checks the flags and fills in what follows from others.
func (f *gloopFlags) complete(c *cobra.Command) error {
	if f.quick {
		for name, set := range map[string]func(){
			"rounds": func() { f.rounds = 3 },
			"length": func() { f.length = 2 * time.Second },
			"most":   func() { f.most = 4 },
		} {
			if !c.Flags().Changed(name) {
				set()
			}
		}
	}
	for _, figure := range f.figures {
		if !slices.Contains(bench.GLoopFigures, figure) {
			return fmt.Errorf("--figures: %q; choose of %s", figure, strings.Join(bench.GLoopFigures, ", "))
		}
	}
	for _, name := range f.names {
		v := gloop.Version(name)
		if !slices.Contains(gloop.Versions, v) {
			return fmt.Errorf("--versions: no %q; choose of %v", name, gloop.Versions)
		}
		f.versions = append(f.versions, v)
	}
	if len(f.versions) == 0 || f.versions[0] != gloop.Vanilla {
		return errors.New("--versions: the first has to be vanilla, with which others are compared")
	}
	for _, name := range f.programs {
		if _, ok := gloopSizes[name]; !ok {
			return fmt.Errorf("--programs: no %q; gdev gloop --help names them", name)
		}
	}
	switch {
	case f.text != 0 && (f.dir != "" || f.vm):
		return errors.New("--text makes files on this machine: it goes neither with --dir nor with --vm")
	case f.text < 0 || f.text > 1<<16:
		return errors.New("--text: choose up to 65536 MB")
	case f.rounds < 1 || f.rounds > 1000:
		return errors.New("--rounds: choose 1 to 1000")
	case f.scale < 1 || f.scale > 8:
		return errors.New("--scale: choose 1 to 8")
	case f.most < 2 || f.most > 8:
		return errors.New("--most: choose 2 to 8")
	case f.length < bench.GLoopWindow || f.length > time.Hour:
		return fmt.Errorf("--length: choose %v to 1h", bench.GLoopWindow)
	}
	return nil
}

func (f *gloopFlags) run(ctx context.Context, g *global, out io.Writer) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	r := bench.GLoopReport{Date: time.Now(), Command: strings.Join(append([]string{"pvdrm"}, os.Args[1:]...), " "), Device: f.dev.device.String(), Card: f.dev.device.kind().far}
	files, err := createFiles([]reportTo[bench.GLoopReport]{{f.json, bench.GLoopReport.WriteJSON}, {f.html, bench.GLoopReport.WriteHTML}})
	if err != nil {
		return err
	}
	b := &gloopBench{gloopFlags: f, log: log, report: &r}
	if err = b.figuresOf(ctx); len(r.Rows) > 0 {
		err = errors.Join(err, r.WriteText(out))
	}
	return files.report(r, err, r.Failed())
}

// gloopBench is one bench.
type gloopBench struct {
	*gloopFlags
	log    *zap.Logger
	report *bench.GLoopReport
}

// figuresOf measures all figures. The report has what was measured until an error.
func (b *gloopBench) figuresOf(ctx context.Context) error {
	for _, figure := range b.figures {
		progress("figure %s", figure)
		measure := map[string]func(context.Context, string) error{
			"5.5": b.alone, "5.6": b.grep, "5.7": b.images, "5.9": b.throttles, "5.10": b.instances,
			"5.11": b.equal, "5.12": b.equal, "5.13": b.twoThirds, "5.14": b.twoThirds,
			"5.15": b.servers, "5.16": b.arrivals, "5.17": b.preemption, "start": b.start,
		}[figure]
		if err := measure(ctx, figure); err != nil {
			return fmt.Errorf("figure %s: %w", figure, err)
		}
	}
	return nil
}
