package frameworks

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Native is the place that others are compared with.
const Native = "native"

// Report is what was measured.
type Report struct {
	Command string   `json:"command"`
	Date    string   `json:"date"`
	Host    []string `json:"host"` // facts about it
	Places  []string `json:"places"`
	Runs    []Run    `json:"runs"`
}

// Row is a figure in all places: the median of all values there, and of the ratios to the native median of the
// same round.
type Row struct {
	Framework string             `json:"framework"`
	Name      string             `json:"figure"`
	Unit      string             `json:"unit"`
	Median    map[string]float64 `json:"median"`
	Ratio     map[string]float64 `json:"time_to_native"`
}

// Verdict is how the results of a place compare with native ones of a framework.
type Verdict struct {
	Framework string   `json:"framework"`
	Place     string   `json:"place"`
	Equal     int      `json:"equal"`
	Different []string `json:"different,omitempty"`
	Missing   []string `json:"missing,omitempty"` // with why, where the program said so
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Rows compares the figures, in the order in which they were first said.
func (r *Report) Rows() (rows []Row) {
	type key struct{ framework, name string }
	values, ratios := map[key]map[string][]float64{}, map[key]map[string][]float64{}
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, f := range run.Figures {
			k := key{run.Framework, f.Name}
			if values[k] == nil {
				values[k], ratios[k] = map[string][]float64{}, map[string][]float64{}
				rows = append(rows, Row{Framework: run.Framework, Name: f.Name, Unit: f.Unit, Median: map[string]float64{}, Ratio: map[string]float64{}})
			}
			values[k][run.Place] = append(values[k][run.Place], f.Values...)
			if native, ok := r.native(run, f.Name); ok && run.Place != Native {
				ratios[k][run.Place] = append(ratios[k][run.Place], median(f.Values)/native)
			}
		}
	}
	for _, row := range rows {
		k := key{row.Framework, row.Name}
		for place, v := range values[k] {
			row.Median[place] = median(v)
		}
		for place, v := range ratios[k] {
			row.Ratio[place] = median(v)
		}
	}
	return rows
}

// native is the median of a figure in the native run of the same round.
func (r *Report) native(of *Run, name string) (float64, bool) {
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Framework != of.Framework || run.Place != Native || run.Round != of.Round {
			continue
		}
		f, ok := run.figure(name)
		m := median(f.Values)
		return m, ok && m > 0
	}
	return 0, false
}

// Verdicts compares the results of each place with the native ones. A result that differs between two native
// runs says nothing, and is left out.
func (r *Report) Verdicts() (all []Verdict) {
	for _, framework := range Names {
		want := r.steady(framework)
		for _, place := range r.Places {
			runs := r.of(framework, place)
			if place == Native || len(runs) == 0 || len(want) == 0 {
				continue
			}
			v := Verdict{Framework: framework, Place: place}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				switch got, times := digests(runs, name); {
				case times < len(runs):
					v.Missing = append(v.Missing, name)
				case len(got) == 1 && got[want[name]]:
					v.Equal++
				default:
					v.Different = append(v.Different, name)
				}
			}
			all = append(all, v)
		}
	}
	return all
}

func (r *Report) of(framework, place string) (runs []*Run) {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Framework == framework && run.Place == place {
			runs = append(runs, run)
		}
	}
	return runs
}

// digests are all that runs say of a result, and in how many it was said.
func digests(runs []*Run, name string) (all map[string]bool, times int) {
	all = map[string]bool{}
	for _, run := range runs {
		if d, ok := run.Results[name]; ok {
			all[d] = true
			times++
		}
	}
	return all, times
}

// steady has the results that all native runs of a framework agree on.
func (r *Report) steady(framework string) map[string]string {
	want, runs := map[string]string{}, r.of(framework, Native)
	for _, run := range runs {
		for name, digest := range run.Results {
			if all, times := digests(runs, name); len(all) == 1 && times == len(runs) {
				want[name] = digest
			}
		}
	}
	return want
}

// Wrong tells whether a result differs from the native one, or is missing.
func (r *Report) Wrong() bool {
	return slices.ContainsFunc(r.Verdicts(), func(v Verdict) bool { return len(v.Different)+len(v.Missing) > 0 })
}

// JSON writes everything.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	err := e.Encode(struct {
		*Report
		Rows     []Row     `json:"figures"`
		Verdicts []Verdict `json:"verdicts"`
	}{r, r.Rows(), r.Verdicts()})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// Text writes tables.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"figure", "unit"}
	for _, p := range r.Places {
		head = append(head, p)
		if p != Native {
			head = append(head, p+"/"+Native)
		}
	}
	_, _ = fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range r.Rows() {
		cells := []string{row.Name, row.Unit}
		for _, p := range r.Places {
			cells = append(cells, number(row.Median, p, "%.4g"))
			if p != Native {
				cells = append(cells, number(row.Ratio, p, "%.3f"))
			}
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	var b strings.Builder
	for _, v := range r.Verdicts() {
		fmt.Fprintf(&b, "%s, %s: %d results equal the native ones", v.Framework, v.Place, v.Equal)
		for _, list := range []struct {
			what  string
			names []string
		}{{what: "different", names: v.Different}, {what: "missing", names: v.Missing}} {
			if len(list.names) > 0 {
				fmt.Fprintf(&b, "; %s: %s", list.what, strings.Join(list.names, ", "))
			}
		}
		b.WriteByte('\n')
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, name := range slices.Sorted(maps.Keys(run.Failed)) {
			fmt.Fprintf(&b, "%s, %s, round %d: %s failed: %s\n", run.Framework, run.Place, run.Round, name, run.Failed[name])
		}
		if run.Error != "" {
			fmt.Fprintf(&b, "%s, %s, round %d: %s\n", run.Framework, run.Place, run.Round, run.Error)
		}
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

func number(values map[string]float64, place, format string) string {
	if v, ok := values[place]; ok {
		return fmt.Sprintf(format, v)
	}
	return "–"
}
