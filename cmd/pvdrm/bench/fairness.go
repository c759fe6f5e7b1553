package bench

import (
	"encoding/json"
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
	// Busy is the GPU time that the guest had used at each sample.
	Busy []time.Duration
}

// FairRun is some guests that shared the GPU under one policy.
type FairRun struct {
	Policy string
	Guests []FairGuest
	At     []time.Duration // of the samples, since the run began
}

// throughput is the kernels that a guest ran in a second.
func (g *FairGuest) throughput() float64 {
	if g.Ran == 0 {
		return 0
	}
	return float64(g.Kernels) / g.Ran.Seconds()
}

// kernel is how long the GPU is busy with one kernel of a guest, on average.
func (r *FairRun) kernel(g *FairGuest) time.Duration {
	rate := g.throughput()
	if rate == 0 {
		return 0
	}
	last := len(r.At) - 1
	return time.Duration(float64(g.Busy[last]) / r.At[last].Seconds() / rate)
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
	// kernels as long as the longest of the run.
	Unavoidable    float64 `json:"unavoidable"`
	Throughput     float64 `json:"throughput"` // kernels a second
	ThroughputFIFO float64 `json:"throughput_fifo"`
}

// used is the GPU time of a guest at a time of the run, between samples in
// proportion.
func (r *FairRun) used(g *FairGuest, at time.Duration) time.Duration {
	for i := range r.At {
		if r.At[i] < at {
			continue
		}
		if i == 0 {
			return g.Busy[0]
		}
		part := float64(at-r.At[i-1]) / float64(r.At[i]-r.At[i-1])
		return g.Busy[i-1] + time.Duration(part*float64(g.Busy[i]-g.Busy[i-1]))
	}
	return g.Busy[len(g.Busy)-1]
}

// Usage is the part of the GPU time used by all that each guest had, in windows
// that follow one another. A window in which nobody used the GPU says nothing
// and is left out.
func (r *FairRun) Usage(window time.Duration) (shares [][]float64) {
	shares = make([][]float64, len(r.Guests))
	for from := r.At[0]; from+window <= r.At[len(r.At)-1]; from += window {
		total := 0.0
		part := make([]float64, len(r.Guests))
		for i := range r.Guests {
			g := &r.Guests[i]
			part[i] = float64(r.used(g, from+window) - r.used(g, from))
			total += part[i]
		}
		if total == 0 {
			continue
		}
		for i := range part {
			shares[i] = append(shares[i], part[i]/total)
		}
	}
	return shares
}

// Rows sums a run up for some lengths of windows. Fifo is the run of the same
// guests under FIFO, or nil.
func (r *FairRun) Rows(windows []time.Duration, fifo *FairRun) (rows []FairRow) {
	weights := uint32(0)
	longest := time.Duration(0)
	for i, g := range r.Guests {
		weights += g.Weight
		longest = max(longest, r.kernel(&r.Guests[i]))
	}
	for _, w := range windows {
		usage := r.Usage(w)
		if len(r.Guests) == 0 || len(usage[0]) == 0 {
			continue // the run was shorter, or nobody used the GPU
		}
		for i, g := range r.Guests {
			row := FairRow{Policy: r.Policy, Guests: len(r.Guests), WindowMS: int(w / time.Millisecond), Guest: g.Name, Workload: g.Workload,
				Expected: float64(g.Weight) / float64(weights), Throughput: g.throughput()}
			row.Unavoidable = sched.Indivisible(longest, w, row.Expected)
			for _, u := range usage[i] {
				row.Share += u / float64(len(usage[i]))
				row.Worst = max(row.Worst, math.Abs(u-row.Expected))
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
	Lone    []LoneRow
}

// WriteJSON writes one object a line: the rows, then those of one busy guest.
func (f FairReport) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, r := range f.Rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	for _, r := range f.Lone {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes tables for a terminal.
func (f FairReport) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "policy\tguests\twindow\tshare\texpected\tworst\tunavoidable\tkernels/s\tFIFO\t  guest")
	for _, r := range f.Rows {
		fifo := "-"
		if r.ThroughputFIFO > 0 {
			fifo = fmt.Sprintf("%.1f", r.ThroughputFIFO)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d ms\t%.1f %%\t%.1f %%\t%.1f\t%.1f\t%.1f\t%s\t  %s, %s\n", r.Policy, r.Guests, r.WindowMS,
			100*r.Share, 100*r.Expected, 100*r.Worst, 100*r.Unavoidable, r.Throughput, fifo, r.Guest, r.Workload)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return writeLone(w, f.Lone)
}
