package bench

import (
	"bytes"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// modePhaseGroups are the phases of the thesis's Figures 4.3 to 4.5.
var modePhaseGroups = []struct {
	name   string
	phases []string
}{
	{name: "init", phases: []string{"init"}},
	{name: "compute", phases: []string{"htod", "launch", "dtoh"}},
	{name: "close", phases: []string{"close"}},
}

// modeTable finds rows of a comparison.
type modeTable struct {
	benches, modes []string
	rows           map[[3]string]ModeRow // by program, mode and phase
}

func newModeTable(rows []ModeRow) (t modeTable) {
	t.rows = map[[3]string]ModeRow{}
	for _, r := range rows {
		t.rows[[3]string{r.Bench, r.Mode, r.Phase}] = r
		if !slices.Contains(t.benches, r.Bench) {
			t.benches = append(t.benches, r.Bench)
		}
		if !slices.Contains(t.modes, r.Mode) {
			t.modes = append(t.modes, r.Mode)
		}
	}
	return t
}

// has reports whether all of the modes were measured.
func (t modeTable) has(modes ...string) bool {
	return !slices.ContainsFunc(modes, func(m string) bool { return !slices.Contains(t.modes, m) })
}

// ratios is Figure 4.8 of one mode: what was published beside what was measured.
func (t modeTable) ratios(mode string) (f figure) {
	f.Title, f.unit, f.line = "Figure 4.8: time relative to native, "+mode, "of native", 1
	f.Caption = "Logarithmic. Native is the card's driver with nothing between. " + sourceModes + "."
	columns := []column{publishedModes.published(mode), {name: mode, value: func(b string) (float64, bool) {
		r := t.rows[[3]string{b, mode, "total"}]
		return r.Ratio, r.Ratio > 0
	}}}
	f.columns(t.benches, columns)
	return f
}

// counts is a chart of a counter, of which each of the modes has a bar for each program, stacked by
// init, compute and close.
func (t modeTable) counts(title, caption string, modes []string, count func(ModeRow) uint64) (f figure) {
	f.Title, f.unit = title, "in a run"
	f.Caption = caption + " For each program the bars are " + strings.Join(modes, ", ") + "."
	for i, g := range modePhaseGroups {
		f.legend = append(f.legend, swatch{g.name, palette[i]})
	}
	for _, b := range t.benches {
		g := group{name: b}
		for _, m := range modes {
			x := bar{title: b + ", " + m}
			for i, of := range modePhaseGroups {
				sum := uint64(0)
				for _, phase := range of.phases {
					sum += count(t.rows[[3]string{b, m, phase}])
				}
				x.parts = append(x.parts, part{palette[i], float64(sum)})
				x.title += ", " + of.name + " " + tick(float64(sum))
			}
			g.bars = append(g.bars, x)
		}
		f.groups = append(f.groups, g)
	}
	return f
}

// accesses is Figure 4.4: accesses by BAR, in the mode in which all trap.
func (t modeTable) accesses() (f figure) {
	f.Title, f.unit, f.log = "Figure 4.4: accesses of BAR0, BAR1 and BAR3 (fv)", "in a run", true
	f.Caption = "Logarithmic. In the thesis, too, BAR3 is accessed most, while page tables are made."
	f.columns(t.benches, []column{
		{name: "BAR0", value: func(b string) (float64, bool) { return t.count(b, func(r ModeRow) uint64 { return r.TrapsBAR0 }) }},
		{name: "BAR1", value: func(b string) (float64, bool) { return t.count(b, func(r ModeRow) uint64 { return r.TrapsBAR1 }) }},
		{name: "BAR3", value: func(b string) (float64, bool) { return t.count(b, func(r ModeRow) uint64 { return r.TrapsBAR3 }) }},
	})
	return f
}

// count is a counter of fv.
func (t modeTable) count(bench string, of func(ModeRow) uint64) (float64, bool) {
	v := of(t.rows[[3]string{bench, "fv", "total"}])
	return float64(v), v > 0
}

// breakdown is Figure 4.9 of a mode: the phases as parts of the run.
func (t modeTable) breakdown(mode string) (f figure) {
	f.Title, f.unit = "Figure 4.9: phases, "+mode, "of the run"
	f.Caption = "Parts of the time of a whole run. In the thesis init and close are more than nine tenths of full virtualization's."
	phases := modePhases[:len(modePhases)-1]
	for i, p := range phases {
		f.legend = append(f.legend, swatch{p, palette[i]})
	}
	for _, b := range t.benches {
		whole, x := 0.0, bar{title: b + ", " + mode}
		for _, p := range phases {
			whole += t.rows[[3]string{b, mode, p}].Seconds
		}
		if whole == 0 {
			continue
		}
		for i, p := range phases {
			s := t.rows[[3]string{b, mode, p}].Seconds
			x.parts = append(x.parts, part{palette[i], s / whole})
			x.title += ", " + p + " " + seconds(s)
		}
		f.groups = append(f.groups, group{name: b, bars: []bar{x}})
	}
	return f
}

// figures are the charts of a comparison.
func (t modeTable) figures() (all []figure) {
	if t.has("fv", "fv-lazy") {
		all = append(all, t.counts("Figure 4.3: scans of page tables by phase", "Scans of channels' directories, without and with lazy shadowing.",
			[]string{"fv", "fv-lazy"}, func(r ModeRow) uint64 { return r.Scans }))
	}
	if t.has("fv") {
		all = append(all, t.accesses())
	}
	if t.has("fv", "fv-remap") {
		all = append(all, t.counts("Figure 4.5: traps of BAR3 by phase", "Without and with BAR remap.",
			[]string{"fv", "fv-remap"}, func(r ModeRow) uint64 { return r.TrapsBAR3 }))
	}
	if t.has(NativeMode) {
		for _, m := range publishedModes.columns {
			if t.has(m) {
				all = append(all, t.ratios(m))
			}
		}
	}
	for _, m := range t.modes {
		all = append(all, t.breakdown(m))
	}
	return all
}

// WriteModesHTML writes a comparison as a page with charts that needs nothing else. The time line may be
// nil.
func WriteModesHTML(w io.Writer, command, traps string, date time.Time, rows []ModeRow, timeline *Timeline) error {
	var text bytes.Buffer
	if err := WriteModes(&text, traps, rows); err != nil {
		return err
	}
	var figures []figure
	if timeline != nil {
		figures = append(figures, timeline.figure())
	}
	return writeModesPage(w, command, date, append(figures, newModeTable(rows).figures()...), text.String())
}

// WriteModeGuestsHTML likewise writes one of several guests, or contexts, at a time.
func WriteModeGuestsHTML(w io.Writer, command string, date time.Time, rows []ModeRow) error {
	var text bytes.Buffer
	if err := WriteModeGuests(&text, rows); err != nil {
		return err
	}
	return writeModesPage(w, command, date, manyFigures(rows), text.String())
}

func writeModesPage(w io.Writer, command string, date time.Time, figures []figure, text string) error {
	data := struct {
		Title, Date, Command string
		Figures              []fairFigure
		Table                string
	}{Title: "Ways to virtualize a GPU", Date: date.Format("2006-01-02 15:04 MST"), Command: command, Table: text}
	for _, f := range figures {
		// The chart escapes all text that is in it.
		data.Figures = append(data.Figures, fairFigure{Title: f.Title, Caption: f.Caption, SVG: template.HTML(f.svg())})
	}
	return fairTemplate.Execute(w, data)
}
