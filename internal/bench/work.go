package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// None stands for a policy where there is no arbiter: each backend takes itself for
// the only one, and the GPU's driver, or the operating system, divides the time.
const None = "none"

// WorkRow is what guests got done under a policy and without any, a line of JSON.
// Work is counted in the time that each kernel takes in a guest that is alone: 1 is
// a GPU that is as busy as one such guest keeps it.
type WorkRow struct {
	Experiment string    `json:"experiment"` // None
	Policy     string    `json:"policy"`
	Guests     int       `json:"guests"`
	Throughput []float64 `json:"throughput"` // of each guest, kernels a second
	Work       float64   `json:"work"`       // of all together
	Ratio      float64   `json:"ratio"`      // to that without an arbiter
	// OneGPU is that the guests share the GPU even then. A software GPU each backend
	// has for itself, and more of them use more of the host's processors.
	OneGPU bool `json:"one_gpu"`
}

// NewWorkRow compares a run with one of the same guests without an arbiter. Alone has
// the kernels a second of a guest alone, by workload. A workload that is not in it, or
// that nothing was done of, makes the row worthless: false.
func NewWorkRow(run, without *FairRun, alone map[string]float64) (r WorkRow, ok bool) {
	work := func(run *FairRun) (sum float64) {
		for _, g := range run.Guests {
			if alone[g.Workload] <= 0 {
				return 0
			}
			sum += g.throughput() / alone[g.Workload]
		}
		return sum
	}
	r = WorkRow{Experiment: None, Policy: run.Policy, Guests: len(run.Guests), Work: work(run)}
	for _, g := range run.Guests {
		r.Throughput = append(r.Throughput, g.throughput())
	}
	base := work(without)
	if r.Work == 0 || base == 0 {
		return r, false
	}
	r.Ratio = r.Work / base
	return r, true
}

// workGoal is the work under BAND, of that without an arbiter.
const workGoal = 0.97

func (r WorkRow) targets() []Target {
	if r.Policy != "band" || !r.OneGPU {
		return nil
	}
	return []Target{
		{Figure: fmt.Sprintf("what %d guests get done less under BAND than without an arbiter", r.Guests), Goal: fmt.Sprintf("under %.0f %%", 100*(1-workGoal)),
			Found: fmt.Sprintf("%.2f %%", 100*(1-r.Ratio)), Met: r.Ratio > workGoal},
	}
}

func writeWork(w io.Writer, rows []WorkRow) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nwork done, in the time that its kernels take alone; ratio to that without an arbiter (none)")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tguests\twork\tratio\t  kernels/s of each")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%.4f\t%.4f\t ", r.Policy, r.Guests, r.Work, r.Ratio)
		for _, n := range r.Throughput {
			fmt.Fprintf(t, " %.1f", n)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
