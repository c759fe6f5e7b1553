package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// Clang is the mode in which a program's kernels are C code of this machine, for
// the comparison of the software GPU with it. Reports have no table of its own.
const Clang Mode = "clang"

// ClangRow compares the kernels of a program on the software GPU with the same in
// C: a line of JSON. Times are those of phase launch, from the first launch until
// the last kernel has ended.
type ClangRow struct {
	Clang   string  `json:"clang"`             // the program, or GeometricMean
	SoftGPU float64 `json:"softgpu,omitempty"` // seconds, median; none of the mean, as of Native
	Native  float64 `json:"native,omitempty"`
	Ratio   float64 `json:"ratio"` // of the two in the same round, median
	P10     float64 `json:"p10"`   // of the ratios
	P90     float64 `json:"p90"`
	// Verified says that all results of both were right.
	Verified bool `json:"verified"`

	why string // it is not, where that is known
}

// GeometricMean stands for all programs together.
const GeometricMean = "geometric-mean"

// ClangRows summarizes runs in the modes Native and Clang: a row for each program,
// and one for their geometric mean.
func ClangRows(samples []Sample) []ClangRow {
	type runs struct{ gpu, native map[int]Sample } // by round
	var names []string
	all := map[string]runs{}
	for _, s := range samples {
		if _, ok := all[s.Bench]; !ok {
			names = append(names, s.Bench)
			all[s.Bench] = runs{map[int]Sample{}, map[int]Sample{}}
		}
		if s.Series.Mode == Clang {
			all[s.Bench].native[s.Round] = s
		} else {
			all[s.Bench].gpu[s.Round] = s
		}
	}
	var rows []ClangRow
	mean := ClangRow{Clang: GeometricMean, Verified: true}
	var medians, low, high []float64
	for _, name := range names {
		var gpu, native, ratios []float64
		row := ClangRow{Clang: name, Verified: true}
		for round, n := range all[name].native {
			g, ok := all[name].gpu[round]
			if !ok {
				continue
			}
			gpu, native = append(gpu, g.Seconds[Launch]), append(native, n.Seconds[Launch])
			ratios = append(ratios, g.Seconds[Launch]/max(n.Seconds[Launch], least))
			row.Verified = row.Verified && g.Verified && n.Verified
			row.why = cmp.Or(row.why, firstError([]Sample{g, n}))
		}
		if len(ratios) == 0 {
			continue
		}
		r := spread(ratios)
		row.SoftGPU, row.Native = spread(gpu).Median, spread(native).Median
		row.Ratio, row.P10, row.P90 = r.Median, r.P10, r.P90
		rows = append(rows, row)
		medians, low, high = append(medians, row.Ratio), append(low, row.P10), append(high, row.P90)
		mean.Verified = mean.Verified && row.Verified
	}
	if len(rows) == 0 {
		return nil
	}
	mean.Ratio, mean.P10, mean.P90 = geomean(medians), geomean(low), geomean(high)
	return append(rows, mean)
}

// clangNote says what the table shows; clangHead is its head, and cells are a row.
const clangNote = "the software GPU against the same kernels in C on all processors: time of the kernels in ms, medians"

var clangHead = []string{"", "softgpu", "C", "ratio", "p10-p90", ""}

func (r ClangRow) cells() []string {
	cells := []string{r.Clang, "", "", factor(r.Ratio), factor(r.P10) + "-" + factor(r.P90), ""}
	if r.Clang != GeometricMean {
		cells[1], cells[2] = fmt.Sprintf("%.3f", 1e3*r.SoftGPU), fmt.Sprintf("%.3f", 1e3*r.Native)
	}
	if !r.Verified {
		cells[5] = "WRONG"
	}
	return cells
}

// clangFigure draws the ratios.
func (r Report) clangFigure() (f figure, ok bool) {
	f.Title, f.Caption = "The software GPU against clang", "Time of the kernels relative to the same in C on the same processors. Logarithmic."
	f.unit, f.line, f.log = "of C", 1, true
	for _, x := range r.Clang {
		f.groups = append(f.groups, group{x.Clang, []bar{{fmt.Sprintf("%s: %s", x.Clang, factor(x.Ratio)), []part{{palette[0], x.Ratio}}}}})
	}
	return f, len(r.Clang) > 0
}

// clangTarget compares the mean with what PVDRM means to reach.
func (r Report) clangTarget() (t Target, ok bool) {
	i := slices.IndexFunc(r.Clang, func(x ClangRow) bool { return x.Clang == GeometricMean })
	if i < 0 {
		return t, false
	}
	worst := slices.MaxFunc(r.Clang, func(a, b ClangRow) int { return cmp.Compare(a.Ratio, b.Ratio) })
	x := r.Clang[i]
	return Target{"kernels on the software GPU against C, geometric mean", fmt.Sprintf("at most %.0f", clangGoal),
		fmt.Sprintf("%s (at most %s, %s)", factor(x.Ratio), factor(worst.Ratio), worst.Clang), x.Ratio <= clangGoal}, true
}
