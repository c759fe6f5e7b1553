package bench

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// DivisionRow is the times of guests that each run one long task at the same time, a line of JSON.
type DivisionRow struct {
	Experiment string `json:"experiment"`
	Policy     string `json:"policy"`
	Guests     int    `json:"guests"`
	Runs       int    `json:"runs"`
	// Deviation is the standard deviation of the times of equal tasks of a run, as a part of their
	// mean, and MaxMin the longest over the shortest of them: medians of the runs, of the worse kind
	// of task where there are two.
	Deviation float64 `json:"deviation"`
	MaxMin    float64 `json:"max_min"`
	// Mean is the mean time of all tasks, and Last that of the last one of a run, seconds.
	Mean float64 `json:"mean"`
	Last float64 `json:"last"`
	// Alone is the time of each kind of task without the others, seconds.
	Alone []float64 `json:"alone"`

	times []float64 // all, for the plot
}

// DivisionTask is the time of one guest's task in a run.
type DivisionTask struct {
	Kind string
	Took time.Duration
}

// NewDivisionRow sums runs up. All runs have the same tasks.
func NewDivisionRow(experiment, policy string, runs [][]DivisionTask, alone []time.Duration) DivisionRow {
	r := DivisionRow{Experiment: experiment, Policy: policy, Runs: len(runs)}
	var deviations, ratios, means, lasts []float64
	for _, run := range runs {
		r.Guests = len(run)
		kinds := map[string][]float64{}
		var all []float64
		for _, t := range run {
			kinds[t.Kind] = append(kinds[t.Kind], t.Took.Seconds())
			all = append(all, t.Took.Seconds())
		}
		deviation, ratio := 0.0, 1.0
		for _, times := range kinds {
			mean, d := meanAndDeviation(times)
			deviation, ratio = max(deviation, d/mean), max(ratio, slices.Max(times)/slices.Min(times))
		}
		deviations, ratios = append(deviations, deviation), append(ratios, ratio)
		mean, _ := meanAndDeviation(all)
		means, lasts = append(means, mean), append(lasts, slices.Max(all))
		r.times = append(r.times, all...)
	}
	r.Deviation, r.MaxMin, r.Mean, r.Last = spread(deviations).Median, spread(ratios).Median, spread(means).Median, spread(lasts).Median
	for _, d := range alone {
		r.Alone = append(r.Alone, d.Seconds())
	}
	slices.Sort(r.times)
	return r
}

// meanAndDeviation is the mean of values, and their standard deviation as of a whole population.
func meanAndDeviation(v []float64) (mean, deviation float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(deviation)
}

// DivisionReport is the outcome of bench division.
type DivisionReport struct {
	Date    time.Time
	Command string
	Rows    []DivisionRow
}

// WriteJSON writes a row a line.
func (r DivisionReport) WriteJSON(w io.Writer) error { return writeLines(w, r.Rows) }

// WriteText writes a table for a terminal.
func (r DivisionReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "experiment\tpolicy\tguests\truns\tdeviation\tmax/min\tmean\tlast\talone\t")
	for _, x := range r.Rows {
		var alone []string
		for _, s := range x.Alone {
			alone = append(alone, fmt.Sprintf("%.3f s", s))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f %%\t%.3f\t%.3f s\t%.3f s\t%s\t\n", x.Experiment, x.Policy, x.Guests, x.Runs, 100*x.Deviation, x.MaxMin, x.Mean, x.Last, strings.Join(alone, ", "))
	}
	return t.Flush()
}

// WriteHTML writes a report with a box plot of each experiment, which needs nothing else.
func (r DivisionReport) WriteHTML(w io.Writer) error {
	var figures []fairFigure
	for i := 0; i < len(r.Rows); {
		name, boxes := r.Rows[i].Experiment, []box{}
		for ; i < len(r.Rows) && r.Rows[i].Experiment == name; i++ {
			boxes = append(boxes, newBox(r.Rows[i].Policy, r.Rows[i].times))
		}
		figures = append(figures, fairFigure{name, published(name) + "Times of all tasks, seconds: least, quarter, median, three quarters, most.",
			template.HTML(boxPlot("s", boxes))}) // made by this package
	}
	return writePage(w, "pvdrm bench division", r.Date, r.Command, figures, r.WriteText)
}

// published says which figures of the paper on thread division an experiment stands beside, and what the
// paper says of them: its box plots have no numbers. It is "" for an experiment that is not the paper's.
func published(experiment string) string {
	figures := map[string]string{
		"product-9k": "Figures 4 and 7", "product-9k+14k": "Figures 3 and 8", "product-10k+14k": "Figure 8", "product-11k+13k": "Figure 8",
		"sobel-2560": "Figure 9", "sobel-8192": "Figure 9", "sobel-2560+8192": "Figure 9",
		"binomial-5m": "Figure 10", "binomial-10m": "Figure 10", "binomial-10m+20m": "Figure 10",
	}[experiment]
	if figures == "" {
		return ""
	}
	return figures + " of the paper, on a Radeon RX 570 with six virtual machines: without division the slowest of equal tasks takes " +
		"about twice as long as the fastest; with it the deviation is considerably reduced, and the mean slightly up. "
}
