package bench

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Experiments of bench neon.
const (
	NeonAlone = "alone" // Throttle without others
	NeonPair  = "pair"  // and another guest
	NeonFour  = "four"  // and three others
	NeonOff   = "off"   // Throttle with pauses, and a guest that has none
)

// NeonExperiments are all experiments.
var NeonExperiments = []string{NeonAlone, NeonPair, NeonFour, NeonOff}

// NeonRow is Throttle, a guest with requests of one length, under a policy: a line of JSON.
type NeonRow struct {
	Experiment string    `json:"experiment"`
	Device     string    `json:"device"` // "simulation", or a GPU
	Policy     string    `json:"policy"`
	RequestUS  float64   `json:"request_us"` // of Throttle
	BesideUS   []float64 `json:"beside_us"`  // of the others
	Off        float64   `json:"off"`        // part of its time for which Throttle, alone, leaves the GPU idle
	Slowdown   float64   `json:"slowdown"`   // of Throttle, against being alone with direct access
	Others     []float64 `json:"others"`     // slowdowns of the others
	// Efficiency is the sum of what each guest gets done, as a part of what it does alone with direct
	// access, and Direct that sum with direct access of all.
	Efficiency float64 `json:"efficiency"`
	Direct     float64 `json:"direct"`
	Denied     uint64  `json:"denied"`
}

// NewNeonRow makes a row of the guests' rates, Throttle's first, and of those alone. direct is the
// efficiency with direct access, or 0 if this is the row for it.
func NewNeonRow(experiment, device, policy string, requests []time.Duration, off float64, rates, alone []float64, direct float64) NeonRow {
	r := NeonRow{Experiment: experiment, Device: device, Policy: policy, RequestUS: us(requests[0]), Off: off, BesideUS: []float64{}, Others: []float64{}, Direct: direct}
	for i := range requests {
		slowdown := 0.0
		if alone[i] > 0 && rates[i] > 0 {
			r.Efficiency += rates[i] / alone[i]
			slowdown = alone[i] / rates[i]
		}
		if i == 0 {
			r.Slowdown = slowdown
			continue
		}
		r.BesideUS, r.Others = append(r.BesideUS, us(requests[i])), append(r.Others, slowdown)
	}
	if direct == 0 {
		r.Direct = r.Efficiency
	}
	return r
}

func us(d time.Duration) float64 { return d.Seconds() * 1e6 }

// NeonReport is the outcome of bench neon.
type NeonReport struct {
	Date    time.Time
	Command string
	Rows    []NeonRow
}

// WriteJSON writes a row a line.
func (r NeonReport) WriteJSON(w io.Writer) error { return writeLines(w, r.Rows) }

// lost is what all guests get done less than with direct access, in percent.
func (r NeonRow) lost() float64 {
	if r.Direct == 0 {
		return 0
	}
	return 100 * (1 - r.Efficiency/r.Direct)
}

// WriteText writes a table of the rows, and one of what each policy loses.
func (r NeonReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "experiment\tdevice\tpolicy\trequest\tbeside, µs\toff\tslowdown\tof the others\tefficiency\tagainst direct\tdenied\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f µs\t%.0f\t%.0f %%\t%.2f\t%.2f\t%.3f\t%+.1f %%\t%d\t\n", x.Experiment, x.Device, x.Policy, x.RequestUS, x.BesideUS, 100*x.Off,
			x.Slowdown, x.Others, x.Efficiency, -x.lost(), x.Denied)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwork lost against direct access: mean and most, and slowdowns from least to most")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "experiment\tpolicy\tmean\tmost\tslowdowns\t")
	for _, group := range r.groups() {
		mean, most, slow := 0.0, group[0].lost(), []float64{}
		for _, x := range group {
			mean += x.lost() / float64(len(group))
			most = max(most, x.lost())
			slow = append(append(slow, x.Slowdown), x.Others...)
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\t%.1f %%\t%.2f to %.2f\t\n", group[0].Experiment, group[0].Policy, mean, most, slices.Min(slow), slices.Max(slow))
	}
	return t.Flush()
}

// groups are the rows of each experiment under each policy.
func (r NeonReport) groups() (all [][]NeonRow) {
	for _, x := range r.Rows {
		i := slices.IndexFunc(all, func(g []NeonRow) bool { return g[0].Experiment == x.Experiment && g[0].Policy == x.Policy })
		if i < 0 {
			all = append(all, []NeonRow{x})
			continue
		}
		all[i] = append(all[i], x)
	}
	return all
}

// WriteHTML writes a report with two charts of each experiment, which needs nothing else.
func (r NeonReport) WriteHTML(w io.Writer) error {
	var figures []fairFigure
	for _, experiment := range NeonExperiments {
		slowdown := chart{unit: "slowdown", line: 1}
		efficiency := chart{unit: "of direct access", line: 1}
		colors := map[string]string{}
		var names []string
		for _, x := range r.Rows {
			if x.Experiment != experiment {
				continue
			}
			color := colors[x.Policy]
			if color == "" {
				color = palette[len(colors)%len(palette)]
				colors[x.Policy] = color
				slowdown.legend, efficiency.legend = append(slowdown.legend, swatch{x.Policy, color}), append(efficiency.legend, swatch{x.Policy, color})
			}
			name := fmt.Sprintf("%.0f µs beside %.0f", x.RequestUS, x.BesideUS)
			if x.Off > 0 {
				name += fmt.Sprintf(", %.0f %% off", 100*x.Off)
			}
			at := slices.Index(names, name)
			if at < 0 {
				at = len(names)
				names = append(names, name)
				slowdown.groups, efficiency.groups = append(slowdown.groups, group{name: name}), append(efficiency.groups, group{name: name})
			}
			part1 := 1 - x.lost()/100
			s, e := &slowdown.groups[at], &efficiency.groups[at]
			s.bars = append(s.bars, bar{fmt.Sprintf("%s, %s: %.2f", name, x.Policy, x.Slowdown), []part{{color, x.Slowdown}}})
			e.bars = append(e.bars, bar{fmt.Sprintf("%s, %s: %.3f", name, x.Policy, part1), []part{{color, part1}}})
		}
		if len(names) == 0 {
			continue
		}
		figures = append(figures, fairFigure{experiment + ": slowdown of Throttle", "against being alone with direct access", template.HTML(slowdown.svg())}, // made by this package
			fairFigure{experiment + ": work of all guests", "as a part of that with direct access", template.HTML(efficiency.svg())}) // likewise
	}
	return writePage(w, "pvdrm bench neon", r.Date, r.Command, figures, r.WriteText)
}
