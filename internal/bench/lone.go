package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// The experiments with one busy guest.
const (
	// UnderArbiter compares a guest alone under an arbiter with one that has none.
	UnderArbiter = "arbiter"
	// BesideIdle compares a guest among others that do nothing with one that is alone
	// under the same arbiter.
	BesideIdle = "idle"
)

// LoneRow is what one busy guest loses: a line of JSON.
type LoneRow struct {
	Experiment string  `json:"experiment"` // UnderArbiter or BesideIdle
	Policy     string  `json:"policy"`
	Guests     int     `json:"guests"` // the idle ones too
	Workload   string  `json:"workload"`
	Throughput float64 `json:"throughput"`       // kernels a second, median of the rounds
	Alone      float64 `json:"throughput_alone"` // of what it is compared with
	Ratio      float64 `json:"ratio"`            // of the two in the same round, median
	P10        float64 `json:"p10"`              // of the ratios
	P90        float64 `json:"p90"`
	// Mean memory of the process of an idle backend, bytes: what it has mapped, and
	// that with shared pages divided among those who share them.
	IdleRSS uint64 `json:"idle_rss,omitempty"`
	IdlePSS uint64 `json:"idle_pss,omitempty"`
}

// Round is the throughput of a guest, kernels a second, and that of the one it is
// compared with.
type Round struct{ Throughput, Alone float64 }

// NewLoneRow sums rounds up.
func NewLoneRow(experiment, policy, workload string, guests int, rounds []Round) LoneRow {
	r := LoneRow{Experiment: experiment, Policy: policy, Guests: guests, Workload: workload}
	var with, alone []float64
	for _, x := range rounds {
		with, alone = append(with, x.Throughput), append(alone, x.Alone)
	}
	s := spread(ratios(rounds))
	r.Throughput, r.Alone = spread(with).Median, spread(alone).Median
	r.Ratio, r.P10, r.P90 = s.Median, s.P10, s.P90
	return r
}

// ratios are those of the rounds in which there was something to compare with.
func ratios(rounds []Round) (all []float64) {
	for _, x := range rounds {
		if x.Alone > 0 {
			all = append(all, x.Throughput/x.Alone)
		}
	}
	return all
}

// Goals of one busy guest.
const (
	arbiterGoal = 0.99       // of the throughput without an arbiter
	idleGoal    = 0.98       // of that alone
	memoryGoal  = 25_000_000 // bytes of an idle backend
)

// targets compares rows with what PVDRM means to reach.
func (r LoneRow) targets() (all []Target) {
	loss := func(goal float64) (string, string, bool) {
		return fmt.Sprintf("%.2f %%", 100*(1-r.Ratio)), fmt.Sprintf("under %.0f %%", 100*(1-goal)), r.Ratio > goal
	}
	switch r.Experiment {
	case UnderArbiter:
		found, goal, met := loss(arbiterGoal)
		all = append(all, Target{"what a single guest loses under the arbiter, " + r.Policy, goal, found, met})
	case BesideIdle:
		found, goal, met := loss(idleGoal)
		all = append(all, Target{fmt.Sprintf("what one guest loses beside %d idle ones, %s", r.Guests-1, r.Policy), goal, found, met})
		if r.IdlePSS > 0 {
			all = append(all, Target{"memory of an idle backend (PSS)", fmt.Sprintf("under %d MB", memoryGoal/1_000_000),
				fmt.Sprintf("%.1f MB (RSS %.1f MB)", float64(r.IdlePSS)/1e6, float64(r.IdleRSS)/1e6), r.IdlePSS < memoryGoal})
		}
	}
	return all
}

// writeLone writes the experiments as tables.
func writeLone(w io.Writer, rows []LoneRow) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\none busy guest; arbiter: under one against without; idle: beside idle guests against alone")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "experiment\tpolicy\tguests\tkernels/s\talone\tratio\tp10-p90\tidle PSS\tRSS\t")
	for _, r := range rows {
		pss, rss := "-", "-"
		if r.IdlePSS > 0 {
			pss, rss = fmt.Sprintf("%.1f MB", float64(r.IdlePSS)/1e6), fmt.Sprintf("%.1f MB", float64(r.IdleRSS)/1e6)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.4f\t%.4f-%.4f\t%s\t%s\t\n",
			r.Experiment, r.Policy, r.Guests, r.Throughput, r.Alone, r.Ratio, r.P10, r.P90, pss, rss)
	}
	return t.Flush()
}
