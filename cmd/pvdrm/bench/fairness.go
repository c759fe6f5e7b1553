package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// FairGuest is one guest of a fairness run.
type FairGuest struct {
	Name     string
	Workload string
	Weight   uint32
	Kernels  int
	// Busy is the GPU time that the guest had used at each sample.
	Busy []time.Duration
}

// FairRun is some guests that shared the GPU under one policy.
type FairRun struct {
	Policy  string
	Guests  []FairGuest
	At      []time.Duration // of the samples, since the run began
	Elapsed time.Duration
}

// FairRow is one line of the result: a guest in windows of one length.
type FairRow struct {
	Policy         string  `json:"policy"`
	Guests         int     `json:"guests"`
	WindowMS       int     `json:"window_ms"`
	Guest          string  `json:"guest"`
	Workload       string  `json:"workload"`
	Share          float64 `json:"share"`      // mean part of the GPU time that all guests used
	Expected       float64 `json:"expected"`   // by weight
	Worst          float64 `json:"worst"`      // largest distance of a window from expected
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
	for _, g := range r.Guests {
		weights += g.Weight
	}
	for _, w := range windows {
		usage := r.Usage(w)
		for i, g := range r.Guests {
			row := FairRow{Policy: r.Policy, Guests: len(r.Guests), WindowMS: int(w / time.Millisecond), Guest: g.Name, Workload: g.Workload,
				Expected: float64(g.Weight) / float64(weights), Throughput: float64(g.Kernels) / r.Elapsed.Seconds()}
			for _, u := range usage[i] {
				row.Share += u / float64(len(usage[i]))
				row.Worst = max(row.Worst, math.Abs(u-row.Expected))
			}
			if fifo != nil {
				row.ThroughputFIFO = float64(fifo.Guests[i].Kernels) / fifo.Elapsed.Seconds()
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// WriteFairJSON writes one object a line.
func WriteFairJSON(w io.Writer, rows []FairRow) error {
	enc := json.NewEncoder(w)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// WriteFairText writes a table.
func WriteFairText(w io.Writer, rows []FairRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "policy\tguests\twindow\tshare\texpected\tworst\tkernels/s\tFIFO\t  guest")
	for _, r := range rows {
		fifo := "-"
		if r.ThroughputFIFO > 0 {
			fifo = fmt.Sprintf("%.1f", r.ThroughputFIFO)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d ms\t%.1f %%\t%.1f %%\t%.1f\t%.1f\t%s\t  %s, %s\n", r.Policy, r.Guests, r.WindowMS,
			100*r.Share, 100*r.Expected, 100*r.Worst, r.Throughput, fifo, r.Guest, r.Workload)
	}
	return tw.Flush()
}
