package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// Clang is the mode in which a program's kernels are C code of this machine, and PoCL
// that in which they run on OpenCL for processors: the software GPU is compared with
// both. Reports have no tables of their own.
const (
	Clang Mode = "clang"
	PoCL  Mode = "pocl"
)

// ClangRow compares the kernels of a program on the software GPU with the same in
// C, and with their OpenCL sources on PoCL: a line of JSON. Times are of phase launch, from the first launch until
// the last kernel has ended.
type ClangRow struct {
	Clang   string  `json:"clang"`             // the program, or GeometricMean
	ISA     string  `json:"isa"`               // avx512, avx2 or plain: what all of them use of the processor
	SoftGPU float64 `json:"softgpu,omitempty"` // seconds, median; none of the mean, as of Native
	Native  float64 `json:"native,omitempty"`
	Ratio   float64 `json:"ratio"` // of the two in the same round, median
	P10     float64 `json:"p10"`   // of the ratios
	P90     float64 `json:"p90"`
	// Verified says that all results of both were right.
	Verified bool `json:"verified"`

	// Processor times, where they are known: they do not depend on what else the machine does.
	SoftGPUCPU float64 `json:"softgpu_cpu,omitempty"` // seconds, median; none of the mean, as of NativeCPU
	NativeCPU  float64 `json:"native_cpu,omitempty"`
	RatioCPU   float64 `json:"ratio_cpu,omitempty"`      // of the two in the same round, median
	PoCLCPU    float64 `json:"ratio_pocl_cpu,omitempty"` // of softgpu to PoCL

	PoCL      float64 `json:"pocl,omitempty"`       // seconds, median; 0 where it was not run, and of the mean
	RatioPoCL float64 `json:"ratio_pocl,omitempty"` // of softgpu to it in the same round, median

	why string // it is not, where that is known
}

// GeometricMean stands for all programs together.
const GeometricMean = "geometric-mean"

// ClangRows summarizes runs in the modes Native, Clang and PoCL, all with the same
// instructions of the processor: a row for each program, and one for their geometric mean.
func ClangRows(samples []Sample, isa string) []ClangRow {
	var names []string
	all := map[string]clangRuns{}
	for _, s := range samples {
		if _, ok := all[s.Bench]; !ok {
			names = append(names, s.Bench)
			all[s.Bench] = clangRuns{Native: {}, Clang: {}, PoCL: {}}
		}
		all[s.Bench][s.Series.Mode][s.Round] = s
	}
	var rows []ClangRow
	mean := ClangRow{Clang: GeometricMean, ISA: isa, Verified: true}
	var medians, low, high, cpu, pocl, poclCPU []float64
	for _, name := range names {
		row := ClangRow{Clang: name, ISA: isa, Verified: true}
		wall, used := all[name].compare(Clang, &row)
		if len(wall.ratios) == 0 {
			continue
		}
		r := spread(wall.ratios)
		row.SoftGPU, row.Native = spread(wall.own).Median, spread(wall.other).Median
		row.Ratio, row.P10, row.P90 = r.Median, r.P10, r.P90
		if len(used.ratios) > 0 {
			row.SoftGPUCPU, row.NativeCPU, row.RatioCPU = spread(used.own).Median, spread(used.other).Median, spread(used.ratios).Median
			cpu = append(cpu, row.RatioCPU)
		}
		if wall, used := all[name].compare(PoCL, &row); len(wall.ratios) > 0 {
			row.PoCL, row.RatioPoCL = spread(wall.other).Median, spread(wall.ratios).Median
			pocl = append(pocl, row.RatioPoCL)
			if len(used.ratios) > 0 {
				row.PoCLCPU = spread(used.ratios).Median
				poclCPU = append(poclCPU, row.PoCLCPU)
			}
		}
		rows = append(rows, row)
		medians, low, high = append(medians, row.Ratio), append(low, row.P10), append(high, row.P90)
		mean.Verified = mean.Verified && row.Verified
	}
	if len(rows) == 0 {
		return nil
	}
	mean.Ratio, mean.P10, mean.P90 = geomean(medians), geomean(low), geomean(high)
	for to, from := range map[*float64][]float64{&mean.RatioCPU: cpu, &mean.RatioPoCL: pocl, &mean.PoCLCPU: poclCPU} {
		if len(from) > 0 {
			*to = geomean(from)
		}
	}
	return append(rows, mean)
}

// clangRuns are the runs of a program, by mode and round.
type clangRuns map[Mode]map[int]Sample

// comparison is times of the software GPU and of another, and their ratios.
type comparison struct{ own, other, ratios []float64 }

func (c *comparison) add(own, other float64) {
	c.own, c.other, c.ratios = append(c.own, own), append(c.other, other), append(c.ratios, own/max(other, least))
}

// compare compares the runs on the software GPU with those of a mode, by the clock and by what processors
// did, and notes in row whether all are right.
func (r clangRuns) compare(with Mode, row *ClangRow) (wall, used comparison) {
	for round, o := range r[with] {
		g, ok := r[Native][round]
		if !ok {
			continue
		}
		wall.add(g.Seconds[Launch], o.Seconds[Launch])
		if g.Processor > 0 && o.Processor > 0 {
			used.add(g.Processor, o.Processor)
		}
		row.Verified = row.Verified && g.Verified && o.Verified
		row.why = cmp.Or(row.why, firstError([]Sample{g, o}))
	}
	return wall, used
}

// clangNote says what the table shows; clangHead is its head, and cells are a row.
const clangNote = "the software GPU against the same kernels in C, and in OpenCL on PoCL, on all processors: time of the kernels in ms, medians, and ratios of processor time"

var clangHead = []string{"", "softgpu", "C", "ratio", "p10-p90", "of cpu", "PoCL", "ratio", "of cpu", ""}

func (r ClangRow) cells() []string {
	cells := []string{r.Clang, "", "", factor(r.Ratio), factor(r.P10) + "-" + factor(r.P90), "", "", "", "", ""}
	for i, x := range map[int]float64{5: r.RatioCPU, 7: r.RatioPoCL, 8: r.PoCLCPU} {
		if x > 0 {
			cells[i] = factor(x)
		}
	}
	if r.PoCL > 0 {
		cells[6] = fmt.Sprintf("%.3f", 1e3*r.PoCL)
	}
	if r.Clang != GeometricMean {
		cells[1], cells[2] = fmt.Sprintf("%.3f", 1e3*r.SoftGPU), fmt.Sprintf("%.3f", 1e3*r.Native)
	}
	if !r.Verified {
		cells[9] = "WRONG"
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

// clangGoals are how many times as long as in C the kernels may take, geometric mean, by what is
// used of the processor.
var clangGoals = map[string]float64{"avx512": 2, "avx2": 2.5, "plain": 4}

// clangTarget compares the mean with what PVDRM means to reach.
func (r Report) clangTarget() (t Target, ok bool) {
	i := slices.IndexFunc(r.Clang, func(x ClangRow) bool { return x.Clang == GeometricMean })
	if i < 0 {
		return t, false
	}
	worst := slices.MaxFunc(r.Clang, func(a, b ClangRow) int { return cmp.Compare(a.Ratio, b.Ratio) })
	x := r.Clang[i]
	goal := clangGoals[x.ISA]
	return Target{"kernels on the software GPU against C, geometric mean, " + x.ISA, fmt.Sprintf("at most %g", goal),
		fmt.Sprintf("%s (at most %s, %s)", factor(x.Ratio), factor(worst.Ratio), worst.Clang), x.Ratio <= goal}, true
}
