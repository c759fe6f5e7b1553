package bench

import (
	"cmp"
	"slices"
)

// Row is what is reported of one phase of one program in one series: a line of
// JSON.
type Row struct {
	Bench      string   `json:"bench"`
	Mode       Mode     `json:"mode"`
	Config     string   `json:"config"`
	Phase      string   `json:"phase"`
	Seconds    float64  `json:"seconds"` // median
	P10        float64  `json:"p10"`
	P90        float64  `json:"p90"`
	Ratio      *float64 `json:"ratio"` // to native in the same round, median; null without native, or where it takes no time
	Doorbells  uint64   `json:"doorbells"`
	Interrupts uint64   `json:"interrupts"`      // medians of a whole run
	Verified   bool     `json:"verified"`        // in all runs
	Scale      int      `json:"scale,omitempty"` // of the input, where it is not 1

	why    string  // it is not verified, where that is known
	ratios Spread  // of Ratio
	device float64 // seconds in which the device worked, median; native only
	phase  Phase
}

func (r *Row) series() Series { return Series{r.Mode, r.Config} }

// least is the shortest time that ratios are taken to, in seconds: what is below
// is the clock's own noise, or a phase that a program does not have.
const least = 1e-6

// Rows summarizes samples. Programs come in the order in which they were run
// first, series and phases in their own.
func Rows(samples []Sample) []Row {
	type key struct {
		bench  string
		series Series
	}
	var benches []string
	groups := map[key][]Sample{}
	for _, s := range samples {
		if !slices.Contains(benches, s.Bench) {
			benches = append(benches, s.Bench)
		}
		k := key{s.Bench, s.Series}
		groups[k] = append(groups[k], s)
	}
	var rows []Row
	for _, b := range benches {
		native := groups[key{b, Series{Native, Full}}]
		for _, s := range seriesOf(samples) {
			if group := groups[key{b, s}]; group != nil {
				rows = append(rows, summarize(group, native)...)
			}
		}
	}
	return rows
}

// seriesOf lists the series of samples, by mode, the full configuration first.
func seriesOf(samples []Sample) []Series {
	var all []Series
	for _, s := range samples {
		if !slices.Contains(all, s.Series) {
			all = append(all, s.Series)
		}
	}
	slices.SortStableFunc(all, func(a, b Series) int {
		full := func(s Series) int {
			if s.Config == Full {
				return 0
			}
			return 1
		}
		return cmp.Or(slices.Index(Modes, a.Mode)-slices.Index(Modes, b.Mode), full(a)-full(b))
	})
	return all
}

// summarize makes the rows of one program in one series.
func summarize(group, native []Sample) []Row {
	column := func(of func(Sample) float64) (v []float64) {
		for _, s := range group {
			v = append(v, of(s))
		}
		return v
	}
	base := map[int]Sample{}
	for _, s := range native {
		base[s.Round] = s
	}
	first := group[0]
	common := Row{
		Bench: first.Bench, Mode: first.Series.Mode, Config: first.Series.Config, Scale: first.Scale,
		Doorbells:  uint64(spread(column(func(s Sample) float64 { return float64(s.Doorbells) })).Median),
		Interrupts: uint64(spread(column(func(s Sample) float64 { return float64(s.Interrupts) })).Median),
		Verified:   !slices.ContainsFunc(group, func(s Sample) bool { return !s.Verified }),
		why:        firstError(group),
		device:     spread(column(func(s Sample) float64 { return s.Device })).Median,
	}
	rows := make([]Row, phases)
	for p := range phases {
		r := common // a new one each time: Ratio points into it
		r.phase, r.Phase = p, p.String()
		sp := spread(column(func(s Sample) float64 { return s.Seconds[p] }))
		r.Seconds, r.P10, r.P90 = sp.Median, sp.P10, sp.P90
		var ratios []float64
		for _, s := range group {
			if n := base[s.Round].Seconds[p]; n >= least {
				ratios = append(ratios, s.Seconds[p]/n)
			}
		}
		if len(ratios) > 0 {
			r.ratios = spread(ratios)
			r.Ratio = &r.ratios.Median
		}
		rows[p] = r
	}
	return rows
}

// firstError says why a result is wrong, "" if that is not known.
func firstError(samples []Sample) string {
	for _, s := range samples {
		if s.Error != "" {
			return s.Error
		}
	}
	return ""
}

// find returns the row of a program, series and phase; nil if it was not run.
func find(rows []Row, bench string, s Series, p Phase) *Row {
	for i := range rows {
		if r := &rows[i]; r.Bench == bench && r.series() == s && r.phase == p {
			return r
		}
	}
	return nil
}
