package bench

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

// gloopTitles are the captions of figures.
var gloopTitles = map[string]string{
	"5.5":   "Programs alone: time against vanilla; throttle against split",
	"5.6":   "grep: time against vanilla, which copies batches of files",
	"5.7":   "Image matching: time against vanilla (also Figure 5.8)",
	"5.9":   "Throttles: time against one with one thread, one block and slices of 10 ms",
	"5.10":  "Instances of a program: time against one",
	"5.15":  "Three servers of 20 % beside throttle: work in a second",
	"5.16":  "A server of 20 %: throughput against that of before three tpacf arrived",
	"5.17":  "Instances of lavaMD: time against ordinary kernels that the device preempts",
	"start": "Another guest's kernel beside a throttle, from its launch to its end",
}

// value is what a figure draws of a row.
func (x GLoopRow) value() float64 {
	switch x.Figure {
	case "5.15":
		return x.Rate
	case "start":
		return 1e3 * x.Seconds
	}
	return x.Ratio
}

// figureOf draws a figure: groups by program, bars by version; published values stand beside.
func (r GLoopReport) figureOf(figure string) (fairFigure, bool) {
	c := chart{unit: "times", line: 1}
	switch figure {
	case "5.15":
		c.unit, c.line = "a second", 0
	case "start":
		c.unit, c.line = "ms", 0
	}
	colors := map[string]string{}
	color := func(name string) string {
		if colors[name] == "" {
			colors[name] = palette[len(colors)%len(palette)]
			c.legend = append(c.legend, swatch{name, colors[name]})
		}
		return colors[name]
	}
	for _, x := range r.Rows {
		if x.Figure != figure || x.value() == 0 {
			continue
		}
		name := strings.TrimSpace(x.Program + " " + x.Case)
		if x.Guests > 1 {
			name += fmt.Sprintf(" ×%d", x.Guests)
		}
		i := slices.IndexFunc(c.groups, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(c.groups)
			c.groups = append(c.groups, group{name: name})
		}
		g := &c.groups[i]
		g.bars = append(g.bars, bar{fmt.Sprintf("%s, %s: %.3f", name, x.Version, x.value()), []part{{color(x.Version), x.value()}}})
		if p := x.publishedRow(); p != nil && p.ratio > 0 {
			g.bars = append(g.bars, bar{fmt.Sprintf("%s, %s, published: %s", name, x.Version, p.text), []part{{color("published"), p.ratio}}})
		}
	}
	return fairFigure{"Figure " + figure, gloopTitles[figure], template.HTML(c.svg())}, len(c.groups) > 0 // made by this package
}

// WriteHTML writes a report with charts, which needs nothing else.
func (r GLoopReport) WriteHTML(w io.Writer) error {
	var figures []fairFigure
	for _, name := range GLoopFigures {
		if f, ok := r.figureOf(name); ok {
			figures = append(figures, f)
		}
		for _, x := range r.Runs {
			if x.Figure == name {
				figures = append(figures, fairFigure{fmt.Sprintf("Figure %s, %d guests", name, len(x.Run.Guests)),
					fmt.Sprintf("part of the GPU time that all guests used, in windows of %v; dashed: by weight", GLoopWindow), x.Run.usageSVG(GLoopWindow)})
			}
		}
	}
	return writePage(w, "pvdrm bench gloop", r.Date, r.Command, figures, func(w io.Writer) error {
		if err := r.WriteText(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "\npublished: %s\n", sourceGLoop)
		return err
	})
}
