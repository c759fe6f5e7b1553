package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Report is all that was found out.
type Report struct {
	Header Header
	Rows   []Row
	Micros []Micro
	Clang  []ClangRow
}

// Header says where, when and how a report was made.
type Header struct {
	Date    time.Time
	Command string
	Runs    int    // rounds, the one thrown away included
	Facts   []Fact // of the machine and of versions
}

// Fact is a line of the header.
type Fact struct{ Name, Value string }

// Failures lists the programs whose result was wrong, where, and why. The floor does
// not count: nothing is computed there.
func (r Report) Failures() []string {
	var failed []string
	for _, row := range r.Rows {
		if row.phase == Total && !row.Verified && row.Mode != Floor {
			failed = append(failed, failure(row.Bench, row.series().String(), row.why))
		}
	}
	for _, row := range r.Clang {
		if !row.Verified && row.Clang != GeometricMean {
			where := "against C"
			if row.Processors > 0 {
				where += fmt.Sprintf(" on %d processors", row.Processors)
			}
			failed = append(failed, failure(row.Clang, where, row.why))
		}
	}
	return failed
}

func failure(program, where, why string) string {
	text := fmt.Sprintf("%s (%s)", program, where)
	if why != "" {
		text += ": " + why
	}
	return text
}

// WriteJSON writes one object a line: the rows, the micro-benchmarks, then the
// comparison with C.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, row := range r.Rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	for _, m := range r.Micros {
		if err := enc.Encode(m); err != nil {
			return err
		}
	}
	for _, x := range r.Clang {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// What stands in column phase for micro-benchmarks and the comparison with C.
const (
	callPhase   = "call"
	kernelPhase = "kernels"
)

// WriteCSV writes the same as a table, with the spread of the ratios.
// Micro-benchmarks have phase "call", and their ratio is that to their baseline.
// The comparison with C is two lines for each program and the mean, of modes softgpu
// and clang, with phase "kernels"; the ratio stands with the first. Where the number of processors was chosen,
// it is the config.
func (r Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"bench", "mode", "config", "phase", "seconds", "p10", "p90", "ratio", "ratio_p10", "ratio_p90",
		"doorbells", "interrupts", "grants", "verified"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	count := func(v *uint64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatUint(*v, 10)
	}
	for _, row := range r.Rows {
		ratios := []string{"", "", ""}
		if row.Ratio != nil {
			ratios = []string{number(row.ratios.Median), number(row.ratios.P10), number(row.ratios.P90)}
		}
		line := []string{row.Bench, string(row.Mode), row.Config, row.Phase, number(row.Seconds), number(row.P10), number(row.P90)}
		line = append(line, ratios...)
		lines = append(lines, append(line, count(&row.Doorbells), count(&row.Interrupts), "", strconv.FormatBool(row.Verified)))
	}
	for _, m := range r.Micros {
		ratio := ""
		if v, ok := m.Ratio(); ok {
			ratio = number(v)
		}
		lines = append(lines, []string{m.Micro, string(m.Mode), m.Config, callPhase, number(m.NS / 1e9), "", "", ratio, "", "",
			count(m.Doorbells), count(m.Interrupts), count(m.Grants), ""})
	}
	for _, x := range r.Clang {
		gpu, native := number(x.SoftGPU), number(x.Native)
		if x.Clang == GeometricMean {
			gpu, native = "", ""
		}
		verified, config := strconv.FormatBool(x.Verified), Full
		if x.Processors > 0 {
			config = fmt.Sprintf("processors-%d", x.Processors)
		}
		lines = append(lines,
			[]string{x.Clang, "softgpu", config, kernelPhase, gpu, "", "", number(x.Ratio), number(x.P10), number(x.P90), "", "", "", verified},
			[]string{x.Clang, string(Clang), config, kernelPhase, native, "", "", "", "", "", "", "", "", verified})
		if x.RatioPoCL > 0 {
			pocl := ""
			if x.PoCL > 0 {
				pocl = number(x.PoCL)
			}
			lines = append(lines, []string{x.Clang, string(PoCL), config, kernelPhase, pocl, "", "", number(x.RatioPoCL), "", "", "", "", "", verified})
		}
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// series lists the series of the rows in their order.
func (r Report) series() []Series {
	var all []Series
	for _, row := range r.Rows {
		if !slices.Contains(all, row.series()) {
			all = append(all, row.series())
		}
	}
	return all
}

// benches lists the programs of the rows in their order.
func (r Report) benches() []string {
	var all []string
	for _, row := range r.Rows {
		if !slices.Contains(all, row.Bench) {
			all = append(all, row.Bench)
		}
	}
	return all
}

// row finds a row; see find.
func (r Report) row(bench string, s Series, p Phase) *Row { return find(r.Rows, bench, s, p) }

// micro finds a micro-benchmark of the full configuration; nil if it was not run.
func (r Report) micro(name string, m Mode) *Micro {
	for i := range r.Micros {
		if x := &r.Micros[i]; x.Micro == name && x.Mode == m && x.Config == Full {
			return x
		}
	}
	return nil
}

// seconds writes a time with a fitting unit.
func seconds(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 1e-6:
		return fmt.Sprintf("%.3g ns", s*1e9)
	case s < 1e-3:
		return fmt.Sprintf("%.3g us", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g s", s)
}

// ratio writes the ratio of a row, "-" where there is none.
func ratio(r *Row) string {
	if r == nil || r.Ratio == nil {
		return "-"
	}
	return factor(*r.Ratio)
}

// factor writes a ratio with as many digits as it deserves.
func factor(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
