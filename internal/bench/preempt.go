package bench

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// What bench preempt measures.
const (
	PreemptOff    = "off"    // until another guest's kernel has run beside the endless one
	PreemptOn     = "on"     // from that kernel until the endless one makes progress again
	PreemptReplay = "replay" // as on, of an endless kernel that was killed and runs again
	PreemptAlone  = "alone"  // the other guest's kernel without the endless one
)

// PreemptRow is one of them, a line of JSON.
type PreemptRow struct {
	Preempt string  `json:"preempt"`
	Device  string  `json:"device"`
	Policy  string  `json:"policy"`
	Count   int     `json:"count"`
	P50     float64 `json:"p50_us"`
	P90     float64 `json:"p90_us"`
	P99     float64 `json:"p99_us"`
	Max     float64 `json:"max_us"`
	// Lost is the number of measurements without a result: the endless kernel had run on.
	Lost int `json:"lost,omitempty"`
}

// NewPreemptRow sums measured times up.
func NewPreemptRow(what, device, policy string, times []time.Duration, lost int) PreemptRow {
	us := make([]float64, 0, len(times))
	for _, t := range times {
		us = append(us, t.Seconds()*1e6)
	}
	slices.Sort(us)
	return PreemptRow{Preempt: what, Device: device, Policy: policy, Count: len(us), Lost: lost,
		P50: quantile(us, 0.5), P90: quantile(us, 0.9), P99: quantile(us, 0.99), Max: quantile(us, 1)}
}

// PreemptReport is the outcome of bench preempt.
type PreemptReport struct {
	Date    time.Time
	Command string
	Rows    []PreemptRow
}

// WriteJSON writes a row a line.
func (r PreemptReport) WriteJSON(w io.Writer) error { return writeLines(w, r.Rows) }

// writeLines writes rows as JSON, one a line.
func writeLines[R any](w io.Writer, rows []R) error {
	enc := json.NewEncoder(w)
	for _, row := range rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes a table for a terminal.
func (r PreemptReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "preempt\tdevice\tpolicy\tcount\tlost\tp50\tp90\tp99\tmost\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.0f µs\t%.0f µs\t%.0f µs\t%.0f µs\t\n", x.Preempt, x.Device, x.Policy, x.Count, x.Lost, x.P50, x.P90, x.P99, x.Max)
	}
	return t.Flush()
}

// WriteHTML writes a report with a chart, which needs nothing else.
func (r PreemptReport) WriteHTML(w io.Writer) error {
	c := chart{unit: "µs", log: true, legend: []swatch{{"median", palette[0]}, {"p99", palette[1]}}}
	for _, x := range r.Rows {
		c.groups = append(c.groups, group{name: x.Preempt + " " + x.Policy, bars: []bar{
			{title: fmt.Sprintf("%s, %s, median: %.0f µs", x.Preempt, x.Policy, x.P50), parts: []part{{palette[0], x.P50}}},
			{title: fmt.Sprintf("%s, %s, p99: %.0f µs", x.Preempt, x.Policy, x.P99), parts: []part{{palette[1], x.P99}}}}})
	}
	figure := fairFigure{"Preemption of an endless kernel", "Logarithmic. Off: a short kernel of another guest, from its launch until its program knows that it has ended; " +
		"alone: the same without the endless kernel. On: from the short kernel until the endless one makes progress again; replay: the same after it was killed.",
		template.HTML(c.svg())} // made by this package
	return writePage(w, "pvdrm bench preempt", r.Date, r.Command, []fairFigure{figure}, r.WriteText)
}

// writePage writes a page of charts and a table, which needs nothing else.
func writePage(w io.Writer, title string, date time.Time, command string, figures []fairFigure, table func(io.Writer) error) error {
	var text strings.Builder
	if err := table(&text); err != nil {
		return err
	}
	return fairTemplate.Execute(w, struct {
		Title, Date, Command, Table string
		Figures                     []fairFigure
	}{title, date.Format(time.DateTime), command, text.String(), figures})
}
