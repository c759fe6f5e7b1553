package bench

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed fairness.html
var fairnessHTML string

var fairTemplate = template.Must(template.New("fairness").Parse(fairnessHTML))

// fairFigure is a chart of the report.
type fairFigure struct {
	Title, Caption string
	SVG            template.HTML
}

// Sizes of a usage chart in pixels.
const (
	usageWidth  = 640
	usageHeight = 160
	usageLeft   = 40
	usageTop    = 8
	usageFoot   = 34
)

// usageSVG draws the usage of each guest over time, as Figures 4.11 and 4.12 of
// the thesis do, with a dashed line at what each is entitled to.
func (r *FairRun) usageSVG(window time.Duration) template.HTML {
	usage := r.Usage(window)
	var b strings.Builder
	legend := usageTop + usageHeight + usageFoot
	fmt.Fprintf(&b, `<svg width="%d" height="%d" role="img">`, usageLeft+usageWidth+8, legend+legendRow*(len(r.Guests)+1)/2)
	y := func(share float64) float64 { return usageTop + usageHeight*(1-share) }
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" x="%d" y="%.1f">%.0f %%</text>`,
			usageLeft, usageLeft+usageWidth, y(share), y(share), usageLeft-4, y(share)+4, 100*share)
	}
	shares := r.shares()
	for i, g := range r.Guests {
		color := palette[i%len(palette)]
		var points []string
		for n, u := range usage[i] {
			x := usageLeft + float64(usageWidth)*(float64(n)+0.5)/float64(len(usage[i]))
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y(u)))
		}
		name := html.EscapeString(g.Name + ", " + g.Workload)
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"><title>%s</title></polyline>`, color, strings.Join(points, " "), name)
		at := y(shares[i])
		fmt.Fprintf(&b, `<line class="mark" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, usageLeft, usageLeft+usageWidth, at, at)
		lx, ly := usageLeft+i%2*usageWidth/2, legend+i/2*legendRow
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`, lx, ly-9, color, lx+14, ly, name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0 s</text><text class="tick" x="%d" y="%d">%.1f s</text></svg>`,
		usageLeft, usageTop+usageHeight+16, usageLeft+usageWidth, usageTop+usageHeight+16, r.Length.Seconds())
	return template.HTML(b.String()) // text in it was escaped above
}

// overhead is how much less work of each kind was done than under FIFO, as the
// execution time that Figure 4.13 of the thesis gives: FIFO's kernels a second
// over those of the run.
func overhead(run, fifo *FairRun) (workloads []string, ratio []float64) {
	count := func(r *FairRun, w string) (n float64) {
		for _, g := range r.Guests {
			if g.Workload == w {
				n += g.throughput()
			}
		}
		return n
	}
	for _, g := range run.Guests {
		w := g.Workload
		if len(workloads) > 0 && w == workloads[0] || len(workloads) > 1 || count(run, w) == 0 {
			continue
		}
		workloads = append(workloads, w)
		ratio = append(ratio, count(fifo, w)/count(run, w))
	}
	return workloads, ratio
}

// WriteHTML writes a report with charts, which needs nothing else.
func (f FairReport) WriteHTML(w io.Writer) error {
	var figures []fairFigure
	bars := chart{unit: "times FIFO", line: 1}
	fifo := map[int]*FairRun{}
	colors := map[string]string{}
	for _, r := range f.Runs {
		for _, window := range fairDrawn {
			figures = append(figures, fairFigure{fmt.Sprintf("%s, %d guests, windows of %v", r.Policy, len(r.Guests), window),
				"part of the GPU time that all guests used; dashed: what the weights entitle to", r.usageSVG(window)})
		}
		if r.Policy == "fifo" {
			fifo[len(r.Guests)] = r
			continue
		}
		if fifo[len(r.Guests)] == nil {
			continue
		}
		if colors[r.Policy] == "" {
			colors[r.Policy] = palette[len(colors)%len(palette)]
			bars.legend = append(bars.legend, swatch{r.Policy, colors[r.Policy]})
		}
		workloads, ratio := overhead(r, fifo[len(r.Guests)])
		for i, work := range workloads {
			bars.groups = append(bars.groups, group{fmt.Sprintf("%s %d", work, len(r.Guests)),
				[]bar{{fmt.Sprintf("%s, %s, %d guests: %.3f", r.Policy, work, len(r.Guests), ratio[i]), []part{{colors[r.Policy], ratio[i]}}}}})
		}
	}
	if len(bars.groups) > 0 {
		figures = append(figures, fairFigure{"Execution time against FIFO",
			"FIFO's kernels a second over those of the policy, all guests of a workload together. Under FIFO who has long kernels takes what is another's: that a policy gives it back shows here, too.",
			template.HTML(bars.svg())}) // made by this package
	}
	return writePage(w, "pvdrm bench fairness", f.Date, f.Command, figures, f.WriteText)
}

// fairDrawn are the windows of the charts.
var fairDrawn = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond}
