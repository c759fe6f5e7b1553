package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// GLoopFigures are what bench gloop measures: the figures of the evaluation of GLoop in Suzuki's
// thesis, and start, which has none.
var GLoopFigures = []string{"5.5", "5.6", "5.7", "5.9", "5.10", "5.11", "5.12", "5.13", "5.14", "5.15", "5.16", "5.17", "start"}

// GLoopAuto is the version of ordinary kernels into which the device puts scheduling points.
const GLoopAuto = "auto"

// GLoopWindow is the window in which shares are looked at.
const GLoopWindow = 200 * time.Millisecond

// GLoopRow is one measurement, a line of JSON.
type GLoopRow struct {
	Figure  string `json:"figure"`
	Program string `json:"program"`
	Version string `json:"version"`
	Case    string `json:"case,omitempty"` // what else it depends on
	Guests  int    `json:"guests"`         // that ran at the same time
	// Seconds is the median time, without the start and end of a context; of several guests that of
	// all. Base is what Ratio divides by: a median of rounds, within each of them.
	Seconds float64 `json:"seconds"`
	Ratio   float64 `json:"ratio"`
	Base    string  `json:"base,omitempty"`
	// Low and High bound Ratio's median with 95 %.
	Low  float64 `json:"ratio_low,omitempty"`
	High float64 `json:"ratio_high,omitempty"`
	// KernelRatio is Ratio of the phase kernel alone, PointUS that phase by scheduling points.
	KernelRatio float64 `json:"kernel_ratio,omitempty"`
	PointUS     float64 `json:"point_us,omitempty"`
	// Share is the mean part of the GPU time that all guests used, in windows of GLoopWindow; of a
	// window that was furthest from Expected it is Worst that it was off.
	Share    float64 `json:"share"`
	Expected float64 `json:"expected,omitempty"`
	Worst    float64 `json:"worst,omitempty"`
	Rate     float64 `json:"rate,omitempty"` // units of work in a second
	Launches uint64  `json:"launches,omitempty"`
	Verified bool    `json:"verified"`
	Error    string  `json:"error,omitempty"`
}

// GLoopSample is one run of a program.
type GLoopSample struct{ Total, Kernel, Points float64 }

// NewGLoopRow makes a row of runs in rounds, the ratio of which is to those of base in the same
// rounds; base may be nil.
func NewGLoopRow(row GLoopRow, runs, base []GLoopSample) GLoopRow {
	var totals, ratios, kernels, points []float64
	for i, s := range runs {
		totals = append(totals, s.Total)
		if s.Points > 0 {
			points = append(points, 1e6*s.Kernel/s.Points)
		}
		if i < len(base) && base[i].Total > 0 && base[i].Kernel > 0 {
			ratios = append(ratios, s.Total/base[i].Total)
			kernels = append(kernels, s.Kernel/base[i].Kernel)
		}
	}
	row.Seconds, row.PointUS = spread(totals).Median, spread(points).Median
	row.Ratio, row.KernelRatio = spread(ratios).Median, spread(kernels).Median
	row.Low, row.High = medianWithin(ratios)
	return row
}

// GLoopShares are the rows of guests that shared the GPU, one for each kind of workload, of which
// the first guest is the sole one of its kind. The shares of others are those of one of them.
func GLoopShares(row GLoopRow, run *FairRun) (rows []GLoopRow) {
	usage, expected := run.Usage(GLoopWindow), run.shares()
	var done []string
	for i, g := range run.Guests {
		if slices.Contains(done, g.Workload) {
			continue
		}
		done = append(done, g.Workload)
		x := row
		if len(run.Guests) == 1 { // the arbiter hears of uses where they end, and this one's does not
			expected[i] = 0
		}
		x.Program, x.Guests, x.Expected, x.Rate = g.Workload, len(run.Guests), expected[i], g.throughput()
		n := 0.0
		for k, other := range run.Guests {
			if other.Workload != g.Workload {
				continue
			}
			mean, worst := summary(usage[k], expected[k])
			x.Share, x.Worst, n = x.Share+mean, max(x.Worst, worst), n+1
		}
		x.Share /= n
		rows = append(rows, x)
	}
	return rows
}

// GLoopReport is the outcome of bench gloop.
type GLoopReport struct {
	Date    time.Time
	Command string
	Device  string
	Card    bool // Device is an NVIDIA GPU
	Rows    []GLoopRow
	Runs    []GLoopRun // whose usage is drawn
}

// GLoopRun is guests that shared the GPU, for a chart.
type GLoopRun struct {
	Figure string
	Run    *FairRun
}

// WriteJSON writes a row a line.
func (r GLoopReport) WriteJSON(w io.Writer) error { return writeLines(w, r.Rows) }

// Failed reports whether a result was wrong.
func (r GLoopReport) Failed() bool {
	return slices.ContainsFunc(r.Rows, func(x GLoopRow) bool { return !x.Verified })
}

// WriteText writes tables for a terminal.
func (r GLoopReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "figure\tprogram\tversion\tguests\tseconds\tratio\t95 %\tkernel\tpoint\tshare\tworst\trate\t  ")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", x.Figure, x.Program, x.Version, x.Guests, cell(x.Seconds, "%.4f", 1),
			cell(x.Ratio, "%.3f", 1), x.interval(), cell(x.KernelRatio, "%.3f", 1), cell(x.PointUS, "%.2f µs", 1), x.share(), cell(x.Worst, "%.1f", 100),
			cell(x.Rate, "%.1f/s", 1), x.remark())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwhat PVDRM means to reach")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range r.targets() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", verdict(x.Met), x.Figure, x.Found, x.Goal)
	}
	return t.Flush()
}

// cell writes a value that may not be there.
func cell(v float64, format string, factor float64) string {
	if v == 0 || math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v*factor)
}

func (x GLoopRow) interval() string {
	if x.Low == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f to %.3f", x.Low, x.High)
}

func (x GLoopRow) share() string {
	if x.Expected == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f of %.1f %%", 100*x.Share, 100*x.Expected)
}

// remark is what a row says besides.
func (x GLoopRow) remark() string {
	var parts []string
	if x.Case != "" {
		parts = append(parts, x.Case)
	}
	if x.Base != "" {
		parts = append(parts, "against "+x.Base)
	}
	if p := x.publishedRow(); p != nil {
		parts = append(parts, "published: "+p.text)
	}
	if !x.Verified {
		parts = append(parts, "FAILED: "+x.Error)
	}
	return strings.Join(parts, ", ")
}

// find returns the first row of a figure, program and version, or nil.
func (r GLoopReport) find(figure, program, version string) *GLoopRow {
	i := slices.IndexFunc(r.Rows, func(x GLoopRow) bool { return x.Figure == figure && x.Program == program && x.Version == version })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// gloopApplications are the programs whose overhead has a target.
var gloopApplications = []string{"tpacf", "lavamd", "mummergpu", "hybridsort", "grep", "img"}

// targets compares with what PVDRM means to reach.
func (r GLoopReport) targets() (all []Target) {
	if gloop, split := r.find("5.5", "throttle", "gloop"), r.find("5.5", "throttle", "split"); gloop != nil && split != nil && gloop.Seconds > 0 {
		times := split.Seconds / gloop.Seconds
		goal := 3.0
		if r.Card {
			goal = 5
			all = append(all, Target{Figure: "a scheduling point", Found: fmt.Sprintf("%.2f µs", gloop.PointUS), Goal: "1.0 µs", Met: gloop.PointUS <= 1})
		}
		all = append(all, Target{Figure: "throttle, split over gloop", Found: fmt.Sprintf("%.2f", times), Goal: fmt.Sprintf("%.0f", goal), Met: times >= goal})
	}
	var ratios []float64
	for _, p := range gloopApplications {
		if x := r.find("5.5", p, "gloop"); x != nil {
			ratios = append(ratios, x.Ratio)
		}
	}
	if len(ratios) > 0 {
		mean, most := geomean(ratios), slices.Max(ratios)
		all = append(all, Target{Figure: fmt.Sprintf("overhead of %d programs", len(ratios)), Found: fmt.Sprintf("%+.1f %%, at most %+.1f %%", 100*mean-100, 100*most-100),
			Goal: "3 %, at most 7 %", Met: mean <= 1.03 && most <= 1.07})
	}
	for _, x := range r.Rows {
		if x.Expected == 0 || x.Figure == "5.15" || x.Figure == "5.16" {
			continue
		}
		off, farthest := 100*math.Abs(x.Share-x.Expected), 100*x.Worst
		all = append(all, Target{Figure: fmt.Sprintf("%s: share of %s among %d", x.Figure, x.Program, x.Guests), Found: fmt.Sprintf("%.1f points off, a window %.1f", off, farthest),
			Goal: "2 points, a window of 200 ms 5 (a slice of 10 ms)", Met: off <= 2 && farthest <= 5})
	}
	for _, x := range r.Rows {
		if x.Figure != "5.16" || x.Ratio == 0 {
			continue
		}
		all = append(all, Target{Figure: "5.16: throughput that a server keeps", Found: fmt.Sprintf("%.1f %%", 100*x.Ratio), Goal: "97 %", Met: x.Ratio >= 0.97})
	}
	if x := r.find("start", "throttle", "gloop"); x != nil {
		all = append(all, Target{Figure: "another guest's kernel has run", Found: fmt.Sprintf("p99 %.1f ms", 1e3*x.Seconds), Goal: "13 ms, a slice of 10 ms and 3", Met: x.Seconds <= 0.013})
	}
	return all
}
