package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"pvdrm/internal/bench/micro"
)

// Tolerance is how much longer a figure may take than in the other build.
const Tolerance = 0.02

// LeastRounds is how many rounds a Duel needs: the first warms up, and a median of fewer
// than six values has no interval of 95 %.
const LeastRounds = 7

// Pair is the same series in two builds.
type Pair struct{ Ours, Theirs Place }

// Duel compares this build with another. In each round either has two turns at every
// program and at the micro-benchmarks, in the order ABBA, so that what changes
// steadily on the machine cancels out.
type Duel struct {
	Pairs   []Pair
	Benches []string // programs; nil for none
	Micro   bool     // the micro-benchmarks, too
	Runs    int      // rounds, LeastRounds or more
}

// DuelRow compares one figure of the two builds: a line of JSON.
type DuelRow struct {
	Figure string  `json:"figure"` // name of a program or micro-benchmark
	Mode   Mode    `json:"mode"`
	Config string  `json:"config"`
	Rounds int     `json:"rounds"`
	Ours   float64 `json:"seconds"` // medians of the rounds
	Theirs float64 `json:"other_seconds"`
	Ratio  float64 `json:"ratio"` // ours to theirs in the same round, median
	Low    float64 `json:"low"`   // the median is between these two with 95 %
	High   float64 `json:"high"`
}

// Worse reports that this build takes longer, by more than Tolerance and beyond chance.
func (r DuelRow) Worse() bool { return r.Ratio > 1+Tolerance && r.Low > 1 }

// better is the opposite of Worse.
func (r DuelRow) better() bool { return r.Ratio < 1-Tolerance && r.High < 1 }

func (r DuelRow) String() string {
	return fmt.Sprintf("%s, %s: %.3f (%.3f to %.3f)", r.Figure, Series{r.Mode, r.Config}, r.Ratio, r.Low, r.High)
}

// DuelReport is what a Duel found.
type DuelReport struct {
	Header Header
	Rows   []DuelRow
	Wrong  []string // programs whose result was wrong, where, and why
}

// measured names a figure.
type measured struct {
	name   string
	series Series
}

// bout is what a figure took in a round, seconds: the sums of two turns.
type bout struct{ ours, theirs float64 }

// tally collects the rounds of all figures, in the order in which they come first.
type tally struct {
	figures []measured
	bouts   map[measured][]bout
	wrong   []string
}

// add adds a round of a figure.
func (t *tally) add(f measured, b bout) {
	if t.bouts == nil {
		t.bouts = map[measured][]bout{}
	}
	if t.bouts[f] == nil {
		t.figures = append(t.figures, f)
	}
	t.bouts[f] = append(t.bouts[f], b)
}

// rows summarizes the rounds.
func (t *tally) rows() (rows []DuelRow) {
	for _, f := range t.figures {
		rows = append(rows, newDuelRow(f, t.bouts[f]))
	}
	return rows
}

func newDuelRow(f measured, bouts []bout) DuelRow {
	r := DuelRow{Figure: f.name, Mode: f.series.Mode, Config: f.series.Config, Rounds: len(bouts)}
	var ours, theirs, ratios []float64
	for _, b := range bouts {
		ours, theirs = append(ours, b.ours/2), append(theirs, b.theirs/2)
		if b.theirs > 0 {
			ratios = append(ratios, b.ours/b.theirs)
		}
	}
	r.Ours, r.Theirs = spread(ours).Median, spread(theirs).Median
	r.Ratio = spread(ratios).Median
	r.Low, r.High = medianWithin(ratios)
	return r
}

// Run runs all rounds. Before each turn it calls progress with a line for the user. With
// an error it also returns what was measured until then.
func (d Duel) Run(ctx context.Context, progress func(string)) (DuelReport, error) {
	var t tally
	err := d.run(ctx, &t, progress)
	return DuelReport{Rows: t.rows(), Wrong: t.wrong}, err
}

func (d Duel) run(ctx context.Context, t *tally, progress func(string)) error {
	for round := range d.Runs {
		note := func(what string, s Series) {
			progress(fmt.Sprintf("round %d of %d: %s, %s", round+1, d.Runs, what, s))
		}
		for _, p := range d.Pairs {
			if d.Micro {
				note("micro-benchmarks", p.Ours.Series())
				if err := t.micros(ctx, p, round); err != nil {
					return err
				}
			}
			for _, name := range d.Benches {
				note(name, p.Ours.Series())
				if err := t.program(ctx, p, name, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// turns calls do four times, for this build, twice for the other, and for this one
// again; in every other round the other build begins.
func turns(p Pair, round int, do func(place Place, ours bool) error) error {
	for turn := range 4 {
		ours := turn == 0 || turn == 3
		if round%2 == 1 {
			ours = !ours
		}
		place, whose := p.Theirs, "the other build"
		if ours {
			place, whose = p.Ours, "this build"
		}
		if err := do(place, ours); err != nil {
			return fmt.Errorf("%s, %s: %w", whose, place.Series(), err)
		}
	}
	return nil
}

// add adds a turn.
func (b *bout) add(ours bool, seconds float64) {
	if ours {
		b.ours += seconds
	} else {
		b.theirs += seconds
	}
}

// program runs a round of a program. The first round is thrown away.
func (t *tally) program(ctx context.Context, p Pair, name string, round int) error {
	var b bout
	err := turns(p, round, func(place Place, ours bool) error {
		s, err := place.Run(ctx, name, round)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !s.Verified {
			whose := "the other build, "
			if ours {
				whose = "this build, "
			}
			if wrong := failure(name, whose+s.Series.String(), s.Error); !slices.Contains(t.wrong, wrong) {
				t.wrong = append(t.wrong, wrong)
			}
		}
		b.add(ours, s.Seconds[Total])
		return nil
	})
	if err == nil && round > 0 {
		t.add(measured{name: name, series: p.Ours.Series()}, b)
	}
	return err
}

// micros runs a round of the micro-benchmarks that both builds have. The first round
// is thrown away.
func (t *tally) micros(ctx context.Context, p Pair, round int) error {
	bouts, counts := map[string]*bout{}, map[string]int{}
	err := turns(p, round, func(place Place, ours bool) error {
		results, err := place.Micro(ctx)
		for _, r := range results {
			if bouts[r.Micro] == nil {
				bouts[r.Micro] = &bout{}
			}
			bouts[r.Micro].add(ours, r.NS/1e9)
			counts[r.Micro]++
		}
		return err
	})
	if err != nil || round == 0 {
		return err
	}
	for _, m := range micro.All() {
		if counts[m.Name] == 4 {
			t.add(measured{name: m.Name, series: p.Ours.Series()}, *bouts[m.Name])
		}
	}
	return nil
}

// Worse lists the figures in which this build is worse.
func (r DuelReport) Worse() (worse []DuelRow) {
	for _, row := range r.Rows {
		if row.Worse() {
			worse = append(worse, row)
		}
	}
	return worse
}

// WriteJSON writes one row a line.
func (r DuelReport) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, row := range r.Rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes the report as a table for a terminal, and the verdict below it.
func (r DuelReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s\n", r.Header.Date.Format("2006-01-02 15:04 MST"), r.Header.Command)
	for _, f := range r.Header.Facts {
		fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value)
	}
	fmt.Fprintln(w, "\nthis build against the other; ratios of the rounds: median and its interval of 95 %")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%-*s\tmode\trounds\tthis\tother\tratio\t95 %%\t\t\n", nameWidth, "")
	for _, row := range r.Rows {
		word := ""
		switch {
		case row.Worse():
			word = "WORSE"
		case row.better():
			word = "better"
		}
		fmt.Fprintf(t, "%-*s\t%s\t%d\t%s\t%s\t%.3f\t%.3f-%.3f\t%s\t\n", nameWidth, row.Figure, Series{row.Mode, row.Config},
			row.Rounds, seconds(row.Ours), seconds(row.Theirs), row.Ratio, row.Low, row.High, word)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if worse := r.Worse(); len(worse) == 0 {
		fmt.Fprintf(w, "\nNo figure of %d is worse by more than %.0f %% beyond chance.\n", len(r.Rows), 100*Tolerance)
	} else {
		fmt.Fprintf(w, "\nWORSE by more than %.0f %%, with an interval that excludes 1, are %d figures of %d:\n", 100*Tolerance, len(worse), len(r.Rows))
		for _, row := range worse {
			fmt.Fprintf(w, "  %s\n", row)
		}
	}
	if len(r.Wrong) > 0 {
		fmt.Fprintf(w, "\nWRONG RESULTS: %s\n", strings.Join(r.Wrong, ", "))
	}
	return nil
}
