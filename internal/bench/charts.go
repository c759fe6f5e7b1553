package bench

import (
	"fmt"
	"strings"
)

// figure is a chart with its caption.
type figure struct {
	Title, Caption string
	chart
}

// figures are all charts for which there is something to show.
func (r Report) figures() []figure {
	var all []figure
	add := func(f figure, ok bool) {
		if ok {
			all = append(all, f)
		}
	}
	for _, s := range r.series() {
		if s.Config == Full && (s.Mode == Local || s.Mode == VM) {
			add(r.phaseFigure(s))
		}
	}
	add(r.doorbellFigure())
	add(r.ratioFigure())
	add(r.ablationFigure(Local))
	add(r.ablationFigure(VM))
	add(r.clangFigure())
	return all
}

// phaseFigure stacks the phases of native runs and those of a series.
func (r Report) phaseFigure(s Series) (f figure, ok bool) {
	f.Title = fmt.Sprintf("Phases: native and %s", s)
	f.Caption = "Median time of each phase, as a part of the native run. Left native, right " + s.String() + "."
	f.unit, f.line, f.top = "of native", 1, 4
	for p := Init; p < phases; p++ {
		f.legend = append(f.legend, swatch{p.String(), palette[p-1]})
	}
	for _, b := range r.benches() {
		native := r.row(b, Series{Native, Full}, Total)
		if native == nil || native.Seconds < least || r.row(b, s, Total) == nil {
			continue
		}
		whole := 0.0 // of the stack, which is not quite the median of whole runs
		for p := Init; p < phases; p++ {
			whole += r.row(b, Series{Native, Full}, p).Seconds
		}
		g := group{name: b}
		for _, which := range []Series{{Native, Full}, s} {
			x := bar{}
			var told []string
			for p := Init; p < phases; p++ {
				t := r.row(b, which, p).Seconds
				x.parts = append(x.parts, part{palette[p-1], t / whole})
				told = append(told, p.String()+" "+seconds(t))
			}
			x.title = fmt.Sprintf("%s, %s: %s", b, which, strings.Join(told, ", "))
			g.bars = append(g.bars, x)
		}
		f.groups = append(f.groups, g)
	}
	return f, len(f.groups) > 0
}

// column is a series of single bars in a chart.
type column struct {
	name  string
	value func(bench string) (v float64, ok bool)
}

// columns makes a logarithmic chart of columns side by side.
func (f *figure) columns(benches []string, columns []column) {
	f.log = true
	for i, c := range columns {
		f.legend = append(f.legend, swatch{c.name, palette[i%len(palette)]})
	}
	for _, b := range benches {
		g := group{name: b}
		for i, c := range columns {
			x := bar{title: b + ", " + c.name + ": not known"}
			if v, ok := c.value(b); ok {
				x.title = fmt.Sprintf("%s, %s: %s", b, c.name, tick(v))
				x.parts = []part{{palette[i%len(palette)], v}}
			}
			g.bars = append(g.bars, x)
		}
		f.groups = append(f.groups, g)
	}
}

// published is a column of a published table.
func (t table) published(name string) column {
	return column{"thesis: " + name, func(b string) (float64, bool) { return t.value(b, name) }}
}

// measured is a column of what was measured in a series.
func (r Report) measured(s Series, value func(*Row) (float64, bool)) column {
	return column{s.String(), func(b string) (float64, bool) {
		if row := r.row(b, s, Total); row != nil {
			return value(row)
		}
		return 0, false
	}}
}

func doorbells(r *Row) (float64, bool) { return float64(r.Doorbells), true }

func toNative(r *Row) (float64, bool) {
	if r.Ratio == nil {
		return 0, false
	}
	return *r.Ratio, true
}

func (r Report) doorbellFigure() (f figure, ok bool) {
	f.Title, f.Caption, f.unit = "Doorbells of a run", "Logarithmic. Thesis: hypercalls. "+sourceHypercalls+".", "doorbells"
	columns := []column{publishedHypercalls.published(withoutMulticall), publishedHypercalls.published(withMulticall)}
	for _, m := range []Mode{Local, VM} {
		if s := (Series{m, Full}); r.has(s) {
			columns = append(columns, r.measured(s, doorbells))
			ok = true
		}
	}
	f.columns(r.benches(), columns)
	return f, ok
}

func (r Report) ratioFigure() (f figure, ok bool) {
	f.Title, f.Caption = "Execution time relative to native", "Logarithmic. In an emulated machine the processor side of a program is emulated too. "+sourceRatios+"."
	f.unit, f.line = "of native", 1
	var columns []column
	for _, c := range []string{"PV naive", "PV multicall", "PVDRM", "PVDRM pooling"} {
		columns = append(columns, publishedRatios.published(c))
	}
	for _, m := range []Mode{Local, VM} {
		if s := (Series{m, Full}); r.has(s) && r.has(Series{Native, Full}) {
			columns = append(columns, r.measured(s, toNative))
			ok = true
		}
	}
	f.columns(r.benches(), columns)
	return f, ok
}

// ablationFigure compares the configurations of a mode with the full one.
func (r Report) ablationFigure(m Mode) (f figure, ok bool) {
	f.Title, f.Caption = fmt.Sprintf("Ablation, %s", m), "Median time of a whole run relative to that with everything on. Logarithmic."
	f.unit, f.line = "of full", 1
	var columns []column
	for _, s := range r.series() {
		if s.Mode != m || s.Config == Full {
			continue
		}
		columns = append(columns, column{s.Config, func(b string) (float64, bool) {
			row, full := r.row(b, s, Total), r.row(b, Series{m, Full}, Total)
			if row == nil || full == nil || full.Seconds < least {
				return 0, false
			}
			return row.Seconds / full.Seconds, true
		}})
	}
	f.columns(r.benches(), columns)
	return f, len(columns) > 0 && r.has(Series{m, Full})
}

func (r Report) has(s Series) bool {
	for _, x := range r.series() {
		if x == s {
			return true
		}
	}
	return false
}
