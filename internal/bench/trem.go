package bench

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// What bench trem measures.
const (
	TReMSimulation = "simulation" // a cluster in virtual time
	TReMResponse   = "response"   // a short kernel beside batch kernels, on a device
)

// TReMRow is a line of JSON of bench trem. Fields that an experiment does not have are left out.
type TReMRow struct {
	Experiment  string  `json:"experiment"`
	Device      string  `json:"device,omitempty"`
	Policy      string  `json:"policy"`
	Load        float64 `json:"load"`
	Mix         string  `json:"mix"`
	GPUs        int     `json:"gpus"`
	LatencyMS   float64 `json:"latency_ms,omitempty"`
	Keep        bool    `json:"keep,omitempty"`
	SLAMet      float64 `json:"sla_met"`
	Revocations int     `json:"revocations"`
	MostRevoked int     `json:"most_revoked,omitempty"`
	Lost        float64 `json:"lost"`
	// BatchMedian and BatchWorst are how much longer batch jobs took than under the policy wait.
	BatchMedian float64 `json:"batch_median,omitempty"`
	BatchWorst  float64 `json:"batch_worst,omitempty"`
	// Of TReMResponse: the length of the batch kernels, and the responses of the short ones.
	BatchMS float64 `json:"batch_ms,omitempty"`
	Count   int     `json:"count,omitempty"`
	P50     float64 `json:"p50_us,omitempty"`
	P99     float64 `json:"p99_us,omitempty"`
}

// NewTReMResponse sums up the responses of a short kernel beside batch kernels of a length.
func NewTReMResponse(device, policy string, batch, sla time.Duration, responses []time.Duration, revocations int) TReMRow {
	met := 0
	us := make([]float64, 0, len(responses))
	for _, t := range responses {
		us = append(us, t.Seconds()*1e6)
		if t <= sla {
			met++
		}
	}
	slices.Sort(us)
	return TReMRow{Experiment: TReMResponse, Device: device, Policy: policy, Load: 1, GPUs: 1, SLAMet: float64(met) / float64(max(len(us), 1)),
		Revocations: revocations, BatchMS: batch.Seconds() * 1e3, Count: len(us), P50: quantile(us, 0.5), P99: quantile(us, 0.99)}
}

// TReMReport is the outcome of bench trem.
type TReMReport struct {
	Date    time.Time
	Command string
	Rows    []TReMRow
}

// WriteJSON writes a row a line.
func (r TReMReport) WriteJSON(w io.Writer) error { return writeLines(w, r.Rows) }

// WriteText writes tables for a terminal.
func (r TReMReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := ""
	for _, x := range r.Rows {
		if x.Experiment != head {
			head = x.Experiment
			if head == TReMResponse {
				fmt.Fprintln(t, "policy\tdevice\tbatch kernels\tcount\tp50\tp99\tSLA met\tpreempted\t")
			} else {
				fmt.Fprintln(t, "policy\tGPUs\tlatency\tmix\tload\tSLA met\trevocations\tmost\tlost\tbatch jobs\tslowest\t")
			}
		}
		if x.Experiment == TReMResponse {
			fmt.Fprintf(t, "%s\t%s\t%g ms\t%d\t%.0f µs\t%.0f µs\t%.2f %%\t%d\t\n", x.Policy, x.Device, x.BatchMS, x.Count, x.P50, x.P99, 100*x.SLAMet, x.Revocations)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%g ms\t%s\t%.2f\t%.2f %%\t%d\t%d\t%.2f %%\t%.2f×\t%.2f×\t\n", x.Policy, x.GPUs, x.LatencyMS, x.Mix, x.Load,
			100*x.SLAMet, x.Revocations, x.MostRevoked, 100*x.Lost, x.BatchMedian, x.BatchWorst)
	}
	return t.Flush()
}

// tremPublished are the figures of TReM's text (Pavlidakis, ch. 4) for some load and mix: the SLA met with
// TReM and without, %, and revocations of elastic as a part of those of priority.
var tremPublished = []struct {
	load                  float64
	mix                   string
	with, without, beside float64 // 0 where the text has none
}{
	{load: 0.25, mix: "80:20", with: 99, beside: 0.67}, {load: 0.5, mix: "80:20", with: 99, beside: 0.73},
	{load: 1, mix: "80:20", with: 99, without: 93}, {load: 1, mix: "50:50", with: 98, without: 90},
	{load: 2, mix: "80:20", with: 98, without: 92, beside: 0.86}, {load: 2, mix: "50:50", with: 96},
}

// WriteHTML writes a report with charts, beside what the paper published, which needs nothing else.
func (r TReMReport) WriteHTML(w io.Writer) error {
	figures := slices.Concat(r.responseFigures(), r.loadFigures(), r.clusterFigures())
	return writePage(w, "pvdrm bench trem", r.Date, r.Command, figures, r.WriteText)
}

// bars collects bars of several series in groups.
type bars struct {
	chart
	series []string
}

// add adds a bar of a series to a group. A value of 0 is one that is not known.
func (b *bars) add(name, series string, value float64, format string) {
	s := slices.Index(b.series, series)
	if s < 0 {
		s = len(b.series)
		b.series = append(b.series, series)
		b.legend = append(b.legend, swatch{series, palette[s%len(palette)]})
	}
	g := slices.IndexFunc(b.groups, func(g group) bool { return g.name == name })
	if g < 0 {
		g = len(b.groups)
		b.groups = append(b.groups, group{name: name})
	}
	if value != 0 {
		b.groups[g].bars = append(b.groups[g].bars, bar{title: name + ", " + series + ": " + fmt.Sprintf(format, value), parts: []part{{palette[s%len(palette)], value}}})
	}
}

// figure is the chart with its words, or none if it is empty.
func (b *bars) figure(title, note string) []fairFigure {
	if len(b.groups) == 0 {
		return nil
	}
	return []fairFigure{{Title: title, Caption: note, SVG: template.HTML(b.svg())}} // made by this package
}

// responseFigures are as Figure 4.5.
func (r TReMReport) responseFigures() []fairFigure {
	c := bars{chart: chart{unit: "µs", log: true}}
	for _, x := range r.Rows {
		if x.Experiment == TReMResponse {
			name := fmt.Sprintf("%g ms", x.BatchMS)
			c.add(name, x.Policy+", median", x.P50, "%.0f µs")
			c.add(name, x.Policy+", p99", x.P99, "%.0f µs")
		}
	}
	return c.figure("Figure 4.5: response of a short kernel beside batch kernels",
		"Logarithmic, by the length of the batch kernels. TReM's: linear in the length without it, at most 3 times as long as alone with it; Table 4.1: the next kernel 22 ms after a revocation.")
}

// loadFigures are as Figures 4.6 to 4.8, of the first number of GPUs and the first latency.
func (r TReMReport) loadFigures() []fairFigure {
	sla, ratio, lost := bars{chart: chart{unit: "%", top: 100}}, bars{chart: chart{unit: "elastic / priority", line: 1}}, bars{chart: chart{unit: "%"}}
	batch := bars{chart: chart{unit: "× wait", line: 1}}
	revoked := map[string]float64{}
	for _, x := range r.simulated() {
		name := fmt.Sprintf("load %g, %s", x.Load, x.Mix)
		sla.add(name, x.Policy, 100*x.SLAMet, "%.2f %%")
		lost.add(name, x.Policy, 100*x.Lost, "%.2f %%")
		if x.Policy != "wait" {
			batch.add(name, x.Policy+", median", x.BatchMedian, "%.2f")
			batch.add(name, x.Policy+", worst", x.BatchWorst, "%.2f")
		}
		revoked[x.Policy+name] = float64(x.Revocations)
	}
	for _, g := range slices.Clone(sla.groups) {
		if p := revoked["priority"+g.name]; p > 0 && revoked["elastic"+g.name] > 0 {
			ratio.add(g.name, "here", revoked["elastic"+g.name]/p, "%.2f")
		}
		for _, p := range tremPublished {
			if g.name == fmt.Sprintf("load %g, %s", p.load, p.mix) {
				sla.add(g.name, "TReM, published", p.with, "%.0f %%")
				sla.add(g.name, "without TReM, published", p.without, "%.0f %%")
				ratio.add(g.name, "TReM, published", p.beside, "%.2f")
			}
		}
	}
	return slices.Concat(sla.figure("Figure 4.6: SLA met", "User-facing tasks that ended within the SLA, by load and mix of jobs."),
		ratio.figure("Figure 4.7: revocations", "Of elastic, as a part of those of priority."),
		lost.figure("Figure 4.7: work lost", "Part of the GPU time used. TReM's: at most 2 to 3 %."),
		batch.figure("Figure 4.8: batch jobs", "From arrival to end, against wait, which revokes nothing. TReM's: median 1.6 and 1.3, worst 3.2 and 2.1."))
}

// simulated are the rows of the first number of GPUs and the first latency.
func (r TReMReport) simulated() (rows []TReMRow) {
	for _, x := range r.Rows {
		if x.Experiment == TReMSimulation && (len(rows) == 0 || x.GPUs == rows[0].GPUs && x.LatencyMS == rows[0].LatencyMS) {
			rows = append(rows, x)
		}
	}
	return rows
}

// clusterFigures are as Figure 4.10, where there are several numbers of GPUs or latencies.
func (r TReMReport) clusterFigures() []fairFigure {
	gpus, latency := bars{chart: chart{unit: "%", top: 100}}, bars{chart: chart{unit: "%", top: 100}}
	first := r.simulated()
	for _, x := range r.Rows {
		if x.Experiment != TReMSimulation || x.Load != 1 {
			continue
		}
		series := x.Policy + ", " + x.Mix
		if x.LatencyMS == first[0].LatencyMS {
			gpus.add(fmt.Sprintf("%d GPUs", x.GPUs), series, 100*x.SLAMet, "%.2f %%")
		}
		if x.GPUs == first[0].GPUs && x.Policy != "wait" {
			latency.add(fmt.Sprintf("%g ms", x.LatencyMS), series, 100*x.SLAMet, "%.2f %%")
		}
	}
	var all []fairFigure
	if len(gpus.groups) > 1 {
		all = gpus.figure("Figure 4.10: SLA met by number of GPUs, load 1", "TReM's: 4 GPUs with it violate less than 1 % of SLAs, as many as 16 without.")
	}
	if len(latency.groups) > 1 {
		all = append(all, latency.figure("Figure 4.10: SLA met by the latency of a revocation, load 1", "TReM's: more than 99 % need 10 ms.")...)
	}
	return all
}
