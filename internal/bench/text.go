package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// nameWidth is that of the longest name of a program or micro-benchmark.
const nameWidth = 17

// WriteText writes the report as tables for a terminal.
func (r Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	section := func(format string, args ...any) {
		_ = t.Flush() // the last Flush reports what went wrong
		fmt.Fprintf(w, "\n"+format+"\n", args...)
	}
	line := func(cells ...string) {
		// Cells are aligned to the right, but names to the left.
		fmt.Fprintf(t, "%-*s\t%s\t\n", nameWidth, cells[0], strings.Join(cells[1:], "\t"))
	}

	fmt.Fprintf(w, "%s, %s\n", r.Header.Date.Format("2006-01-02 15:04 MST"), r.Header.Command)
	for _, f := range r.Header.Facts {
		fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value)
	}
	for _, s := range r.series() {
		section("%s: %s", s, notes[s.Mode])
		line(r.head(s)...)
		for _, b := range r.benches() {
			if r.row(b, s, Total) != nil {
				line(r.textCells(b, s, false)...)
			}
		}
	}
	if len(r.Micros) > 0 {
		section("micro-benchmarks: medians of one call")
		line(microHead...)
		for _, m := range r.Micros {
			line(microCells(m)...)
		}
	}
	if len(r.Clang) > 0 {
		section(clangNote)
		line(clangHead...)
		for _, x := range r.clangRows() {
			line(x.cells()...)
		}
	}
	if head, rows := r.scaleTable(); len(rows) > 0 {
		section(scaleNote)
		line(head...)
		for _, cells := range rows {
			line(cells...)
		}
	}
	if targets := r.Targets(); len(targets) > 0 {
		section("what PVDRM means to reach")
		if err := t.Flush(); err != nil {
			return err
		}
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, x := range targets {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", verdict(x.Met), x.Figure, x.Found, x.Goal)
		}
	}
	if failed := r.Failures(); len(failed) > 0 {
		section("WRONG RESULTS: %s", strings.Join(failed, ", "))
	}
	return t.Flush()
}

// notes say what the table of a mode shows.
var notes = map[Mode]string{
	Native: "on the bare device, medians in ms",
	Local:  "as a local guest, ratios to native, medians of the rounds",
	VM: "in a virtual machine, ratios to native, medians of the rounds; " +
		"floor+gpu: the floor and the time that the GPU works natively",
	Floor: "the program itself in that machine, without a GPU, medians in ms",
}

var microHead = []string{"", "mode", "time", "baseline", "ratio", "doorbells", "interrupts", "grants"}

// head is the head of the table of a series; textCells are its rows.
func (r Report) head(s Series) []string {
	phases := []string{"p10-p90", "init", "htod", "launch", "dtoh", "close"}
	if s.Mode == Native || s.Mode == Floor {
		return append([]string{"", "total"}, append(phases, "")...)
	}
	h := append(append([]string{"", "ms", "total"}, phases...), "doorbells", "interrupts")
	if s.Mode == VM {
		h = append(h, "floor ms", "to floor", "to floor+gpu")
	}
	return append(h, "")
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// textCells is a row of the table of a series. With wide each phase has its spread,
// for which a terminal has no room.
func (r Report) textCells(b string, s Series, wide bool) []string {
	ms := func(v float64) string { return fmt.Sprintf("%.2f", 1e3*v) }
	total := r.row(b, s, Total)
	word := ""
	if !total.Verified && s.Mode != Floor {
		word = "WRONG"
	}
	if s.Mode == Native || s.Mode == Floor {
		cells := []string{b, ms(total.Seconds), ms(total.P10) + "-" + ms(total.P90)}
		for p := Init; p < phases; p++ {
			row := r.row(b, s, p)
			cell := ms(row.Seconds)
			if wide && row.P90 > 0 {
				cell += " (" + ms(row.P10) + "-" + ms(row.P90) + ")"
			}
			cells = append(cells, cell)
		}
		return append(cells, word)
	}
	cells := []string{b, ms(total.Seconds), ratio(total), band(total)}
	for p := Init; p < phases; p++ {
		row := r.row(b, s, p)
		cell := ratio(row)
		if wide && row.Ratio != nil {
			cell += " (" + band(row) + ")"
		}
		cells = append(cells, cell)
	}
	cells = append(cells, fmt.Sprint(total.Doorbells), fmt.Sprint(total.Interrupts))
	if s.Mode == VM {
		cells = append(cells, r.floorCells(total)...)
	}
	return append(cells, word)
}

// band is where most ratios lie.
func band(r *Row) string {
	if r.Ratio == nil {
		return "-"
	}
	return factor(r.ratios.P10) + "-" + factor(r.ratios.P90)
}

// floorCells compares a program in a machine with the floor there, and with the
// floor and the time in which the device worked natively.
func (r Report) floorCells(vm *Row) []string {
	floor := r.row(vm.Bench, Series{Floor, Full}, Total)
	if floor == nil {
		return []string{"-", "-", "-"}
	}
	cells := []string{fmt.Sprintf("%.2f", 1e3*floor.Seconds), factor(vm.Seconds / max(floor.Seconds, least)), "-"}
	if native := r.row(vm.Bench, Series{Native, Full}, Total); native != nil {
		cells[2] = factor(vm.Seconds / max(floor.Seconds+native.device, least))
	}
	return cells
}

// microCells is a row of the table of micro-benchmarks.
func microCells(m Micro) []string {
	cells := []string{m.Micro, Series{m.Mode, m.Config}.String(), seconds(m.NS / 1e9), "-", "-", "", "", ""}
	if v, ok := m.Ratio(); ok {
		cells[3], cells[4] = seconds(m.BaselineNS/1e9), factor(v)
	}
	for i, v := range []*uint64{m.Doorbells, m.Interrupts, m.Grants} {
		if v != nil {
			cells[5+i] = fmt.Sprint(*v)
		}
	}
	return cells
}
