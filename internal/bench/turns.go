package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// ByPolicy is the experiment in which policies take turns while the same guests
// run, all with the same kernel: what a policy costs beside FIFO, whatever else
// the host does meanwhile.
const ByPolicy = "policy"

// TurnRow is what guests got done under a policy, all together, a line of JSON.
type TurnRow struct {
	Experiment     string  `json:"experiment"` // ByPolicy
	Policy         string  `json:"policy"`
	Guests         int     `json:"guests"`
	Workload       string  `json:"workload"`        // of all of them
	Rounds         int     `json:"rounds"`          // in which all policies had two turns
	Throughput     float64 `json:"throughput"`      // kernels a second, median of the rounds
	ThroughputFIFO float64 `json:"throughput_fifo"` // of the turns of FIFO
	Ratio          float64 `json:"ratio"`           // of the two in the same round, median
	P10            float64 `json:"p10"`             // of the ratios
	P90            float64 `json:"p90"`
	Low            float64 `json:"low"` // the median is between these two with 95 %
	High           float64 `json:"high"`
}

// NewTurnRow sums rounds up: of the policy, and of FIFO.
func NewTurnRow(policy, workload string, guests int, rounds []Round) TurnRow {
	lone := NewLoneRow(ByPolicy, policy, workload, guests, rounds)
	r := TurnRow{Experiment: ByPolicy, Policy: policy, Guests: guests, Workload: workload, Rounds: len(rounds),
		Throughput: lone.Throughput, ThroughputFIFO: lone.Alone, Ratio: lone.Ratio, P10: lone.P10, P90: lone.P90}
	r.Low, r.High = medianWithin(ratios(rounds))
	return r
}

// Rate is the kernels a second of all guests of a run together, between the ends of
// the first and of the last kernel from a time on: what is cut at the edges of a turn
// counts neither way.
func (r *FairRun) Rate(from time.Duration) float64 {
	kernels, first, atFirst, last := 0, r.Length, 0, time.Duration(0)
	for _, g := range r.Guests {
		for _, u := range g.Uses {
			if u.To < from || u.To >= r.Length {
				continue
			}
			kernels += u.Kernels
			if u.To < first {
				first, atFirst = u.To, u.Kernels
			}
			last = max(last, u.To)
		}
	}
	if last <= first {
		return 0
	}
	return float64(kernels-atFirst) / (last - first).Seconds()
}

// Goals of BAND against FIFO.
const (
	maddGoal     = 0.97
	longMaddGoal = 0.99
)

func (r TurnRow) targets() []Target {
	goal := map[string]float64{"madd": maddGoal, "long-madd": longMaddGoal}[r.Workload]
	if goal == 0 || r.Policy != "band" {
		return nil
	}
	return []Target{
		{Figure: fmt.Sprintf("what %d guests with %s lose under BAND against FIFO", r.Guests, r.Workload), Goal: fmt.Sprintf("under %.0f %%", 100*(1-goal)),
			Found: fmt.Sprintf("%.2f %% (%.2f to %.2f)", 100*(1-r.Ratio), 100*(1-r.High), 100*(1-r.Low)), Met: r.Ratio > goal},
	}
}

func writeTurns(w io.Writer, rows []TurnRow) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nall guests with the same kernel, policies in turn while they run; kernels of all guests together")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tguests\tworkload\trounds\tkernels/s\tFIFO\tratio\tp10-p90\tmedian within\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%.1f\t%.1f\t%.4f\t%.4f-%.4f\t%.4f-%.4f\t\n",
			r.Policy, r.Guests, r.Workload, r.Rounds, r.Throughput, r.ThroughputFIFO, r.Ratio, r.P10, r.P90, r.Low, r.High)
	}
	return t.Flush()
}
