package bench

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"pvdrm/backend/sched"
)

// FairGuest is one guest of a fairness run.
type FairGuest struct {
	Name     string
	Workload string
	Weight   uint32
	Kernels  int           // that it ran,
	Ran      time.Duration // in this time
	Uses     []Use         // of the GPU, one after another
}

// Use is some time for which a guest used the GPU, since the run began, and the
// kernels that ended in it.
type Use struct {
	From, To time.Duration
	Kernels  int
}

// FairRun is some guests that shared the GPU under one policy.
type FairRun struct {
	Policy string
	Guests []FairGuest
	Length time.Duration
}

// throughput is the kernels that a guest ran in a second.
func (g *FairGuest) throughput() float64 {
	if g.Ran == 0 {
		return 0
	}
	return float64(g.Kernels) / g.Ran.Seconds()
}

// kernel is how long the GPU is busy with one kernel of a guest, on average.
func (g *FairGuest) kernel() time.Duration {
	var busy time.Duration
	kernels := 0
	for _, u := range g.Uses {
		busy += u.To - u.From
		kernels += u.Kernels
	}
	if kernels == 0 {
		return 0
	}
	return busy / time.Duration(kernels)
}

// FairRow is one line of the result: a guest in windows of one length.
type FairRow struct {
	Policy   string  `json:"policy"`
	Guests   int     `json:"guests"`
	WindowMS int     `json:"window_ms"`
	Guest    string  `json:"guest"`
	Workload string  `json:"workload"`
	Share    float64 `json:"share"`    // mean part of the GPU time that all guests used
	Expected float64 `json:"expected"` // by weight
	Worst    float64 `json:"worst"`    // largest distance of a window from expected
	// Unavoidable is the distance that no scheduler gets below without preemption, with
	// kernels that all are as long as those of the workload with the longest, on average.
	Unavoidable float64 `json:"unavoidable"`
	// Ideal is the largest distance of a scheduler that has the same kernels at hand at
	// any time, and loses no time; see FairRun.ideal.
	Ideal          float64 `json:"ideal"`
	Throughput     float64 `json:"throughput"` // kernels a second
	ThroughputFIFO float64 `json:"throughput_fifo"`
}

// windows is how long each guest used the GPU in windows that follow one another.
// A last one that does not fit into the run is left out.
func (r *FairRun) windows(length time.Duration) [][]time.Duration {
	used := make([][]time.Duration, len(r.Guests))
	for i, g := range r.Guests {
		used[i] = make([]time.Duration, r.Length/length)
		for _, u := range g.Uses {
			for at := max(u.From, 0); at < u.To; {
				n := int(at / length)
				if n >= len(used[i]) {
					break
				}
				end := min(u.To, time.Duration(n+1)*length)
				used[i][n] += end - at
				at = end
			}
		}
	}
	return used
}

// Usage is the part of the GPU time used by all that each guest had, in windows
// that follow one another. A window in which nobody used the GPU says nothing
// and is left out.
func (r *FairRun) Usage(window time.Duration) (shares [][]float64) {
	used := r.windows(window)
	shares = make([][]float64, len(r.Guests))
	for n := range int(r.Length / window) {
		var total time.Duration
		for i := range used {
			total += used[i][n]
		}
		if total == 0 {
			continue
		}
		for i := range used {
			shares[i] = append(shares[i], float64(used[i][n])/float64(total))
		}
	}
	return shares
}

// shares are what the guests are entitled to, by weight.
func (r *FairRun) shares() (all []float64) {
	sum := uint32(0)
	for _, g := range r.Guests {
		sum += g.Weight
	}
	for _, g := range r.Guests {
		all = append(all, float64(g.Weight)/float64(sum))
	}
	return all
}

// ideal has the kernels of the run run once more, under a scheduler that knows
// how long each is and never waits for a guest: next is the one that is
// furthest behind its share, at the middle of its kernel. Those of a guest that
// has run out of them begin anew. It returns nil if a guest ran none.
func (r *FairRun) ideal() *FairRun {
	shares := r.shares()
	kernels := make([][]time.Duration, len(r.Guests))
	out := &FairRun{Policy: "ideal", Guests: make([]FairGuest, len(r.Guests)), Length: r.Length}
	for i, g := range r.Guests {
		pieces := time.Duration(0) // of a kernel that was preempted
		for _, u := range g.Uses {
			pieces += u.To - u.From
			for range u.Kernels {
				kernels[i] = append(kernels[i], max(pieces/time.Duration(u.Kernels), 1))
			}
			if u.Kernels > 0 {
				pieces = 0
			}
		}
		if len(kernels[i]) == 0 {
			return nil
		}
	}
	used := make([]time.Duration, len(r.Guests))
	for at := time.Duration(0); at < r.Length; {
		next, least := 0, math.Inf(1)
		for i := range used {
			k := kernels[i][len(out.Guests[i].Uses)%len(kernels[i])]
			if mid := float64(used[i]+k/2) / shares[i]; mid < least {
				next, least = i, mid
			}
		}
		g := &out.Guests[next]
		k := kernels[next][len(g.Uses)%len(kernels[next])]
		g.Uses = append(g.Uses, Use{at, at + k, 1})
		used[next] += k
		at += k
	}
	return out
}

// summary is the mean of some shares and the largest distance from what is expected.
func summary(usage []float64, expected float64) (mean, worst float64) {
	for _, u := range usage {
		mean += u / float64(len(usage))
		worst = max(worst, math.Abs(u-expected))
	}
	return mean, worst
}

// Rows sums a run up for some lengths of windows. Fifo is the run of the same
// guests under FIFO, or nil.
func (r *FairRun) Rows(windows []time.Duration, fifo *FairRun) (rows []FairRow) {
	longest := time.Duration(0)
	for i := range r.Guests {
		longest = max(longest, r.Guests[i].kernel())
	}
	expected := r.shares()
	ideal := r.ideal()
	for _, w := range windows {
		usage := r.Usage(w)
		if len(r.Guests) == 0 || len(usage[0]) == 0 {
			continue // the run was shorter, or nobody used the GPU
		}
		var best [][]float64
		if ideal != nil {
			best = ideal.Usage(w)
		}
		for i, g := range r.Guests {
			row := FairRow{Policy: r.Policy, Guests: len(r.Guests), WindowMS: int(w / time.Millisecond), Guest: g.Name, Workload: g.Workload,
				Expected: expected[i], Throughput: g.throughput()}
			row.Unavoidable = sched.Indivisible(longest, w, row.Expected)
			row.Share, row.Worst = summary(usage[i], row.Expected)
			if best != nil {
				_, row.Ideal = summary(best[i], row.Expected)
			}
			if fifo != nil {
				row.ThroughputFIFO = fifo.Guests[i].throughput()
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// FairReport is all that was found out about fairness.
type FairReport struct {
	Date    time.Time
	Command string
	Runs    []*FairRun // for the charts
	Rows    []FairRow
	Work    []WorkRow
	Turns   []TurnRow
	Lone    []LoneRow
}

// WriteJSON writes one object a line: the rows, then the work, then the policies in
// turn, then those of one busy guest.
func (f FairReport) WriteJSON(w io.Writer) error {
	for _, err := range []error{writeLines(w, f.Rows), writeLines(w, f.Work), writeLines(w, f.Turns), writeLines(w, f.Lone)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes tables for a terminal.
func (f FairReport) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "policy\tguests\twindow\tshare\texpected\tworst\tideal\tunavoidable\tkernels/s\tFIFO\t  guest")
	for _, r := range f.Rows {
		fifo := "-"
		if r.ThroughputFIFO > 0 {
			fifo = fmt.Sprintf("%.1f", r.ThroughputFIFO)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d ms\t%.1f %%\t%.1f %%\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t  %s, %s\n", r.Policy, r.Guests, r.WindowMS,
			100*r.Share, 100*r.Expected, 100*r.Worst, 100*r.Ideal, 100*r.Unavoidable, r.Throughput, fifo, r.Guest, r.Workload)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if err := writeWork(w, f.Work); err != nil {
		return err
	}
	if err := writeTurns(w, f.Turns); err != nil {
		return err
	}
	if err := writeLone(w, f.Lone); err != nil {
		return err
	}
	return f.writeTargets(w)
}

// writeTargets compares what was found with what PVDRM means to reach.
func (f FairReport) writeTargets(w io.Writer) error {
	var all []Target
	for _, r := range f.Work {
		all = append(all, r.targets()...)
	}
	for _, r := range f.Turns {
		all = append(all, r.targets()...)
	}
	for _, r := range f.Lone {
		all = append(all, r.targets()...)
	}
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nwhat PVDRM means to reach")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", verdict(x.Met), x.Figure, x.Found, x.Goal)
	}
	return t.Flush()
}
