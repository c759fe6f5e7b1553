package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench/micro"
)

// build is one side of a duel, which takes a time that a function gives. It notes its turns.
type build struct {
	name    string
	log     *[]string
	seconds func(name string, turn int) float64
	wrong   bool
	fails   error
	micros  []string
	turn    int
}

func (b *build) Series() Series { return Series{Local, Full} }

func (b *build) Run(_ context.Context, name string, round int) (Sample, error) {
	*b.log = append(*b.log, b.name)
	b.turn++
	s := Sample{Bench: name, Series: b.Series(), Round: round, Verified: !b.wrong}
	s.Seconds[Total] = b.seconds(name, b.turn)
	return s, b.fails
}

func (b *build) Micro(context.Context) (all []micro.Result, err error) {
	b.turn++
	for _, name := range b.micros {
		all = append(all, micro.Result{Micro: name, NS: 1e9 * b.seconds(name, b.turn)})
	}
	return all, b.fails
}

func constant(s float64) func(string, int) float64 {
	return func(string, int) float64 { return s }
}

func silent(string) {}

func TestDuelTakesTurns(t *testing.T) {
	var log []string
	a := &build{name: "A", log: &log, seconds: constant(1)}
	b := &build{name: "B", log: &log, seconds: constant(1)}
	_, err := Duel{Pairs: []Pair{{a, b}}, Benches: []string{"nop"}, Runs: 3}.Run(t.Context(), silent)
	require.NoError(t, err)
	require.Equal(t, "ABBA BAAB ABBA", strings.Join(log[:4], "")+" "+strings.Join(log[4:8], "")+" "+strings.Join(log[8:], ""))
}

// What drifts steadily, and a first round that takes long, change no ratio.
func TestDuelCancelsDrift(t *testing.T) {
	var log []string
	clock := 0
	drifting := func(s float64) func(string, int) float64 {
		return func(_ string, turn int) float64 {
			clock++
			if turn <= 2 {
				return 1000 * s
			}
			return s * (1 + 0.001*float64(clock))
		}
	}
	a := &build{name: "A", log: &log, seconds: drifting(1)}
	b := &build{name: "B", log: &log, seconds: drifting(1)}
	r, err := Duel{Pairs: []Pair{{a, b}}, Benches: []string{"nop"}, Runs: 11}.Run(t.Context(), silent)
	require.NoError(t, err)
	require.Len(t, r.Rows, 1)
	require.Equal(t, 10, r.Rows[0].Rounds)
	require.InDelta(t, 1, r.Rows[0].Ratio, 1e-9)
	require.InDelta(t, 1, r.Rows[0].Low, 1e-9)
	require.InDelta(t, 1, r.Rows[0].High, 1e-9)
}

func TestDuelVerdict(t *testing.T) {
	for _, c := range []struct {
		what          string
		ours          func(name string, turn int) float64
		worse, better bool
	}{
		{what: "the same", ours: constant(1)},
		{what: "little longer", ours: constant(1.019)},
		{what: "longer", ours: constant(1.03), worse: true},
		{what: "shorter", ours: constant(0.9), better: true},
		{what: "longer in six rounds of ten", ours: func(_ string, turn int) float64 {
			if (turn-1)/2%5 < 2 {
				return 0.9
			}
			return 1.1
		}},
	} {
		var log []string
		a := &build{name: "A", log: &log, seconds: c.ours, micros: []string{"null"}}
		b := &build{name: "B", log: &log, seconds: constant(1), micros: []string{"null"}}
		r, err := Duel{Pairs: []Pair{{a, b}}, Micro: true, Runs: 11}.Run(t.Context(), silent)
		require.NoError(t, err)
		require.Len(t, r.Rows, 1)
		row := r.Rows[0]
		require.Equal(t, c.worse, row.Worse(), "%s: %s", c.what, row)
		require.Equal(t, c.better, row.better(), "%s: %s", c.what, row)
		var text strings.Builder
		require.NoError(t, r.WriteText(&text))
		if c.worse {
			require.Contains(t, text.String(), "WORSE by more than 2 %, with an interval that excludes 1, are 1 figures of 1:\n  null, local: 1.030 (1.030 to 1.030)\n")
		} else {
			require.Contains(t, text.String(), "No figure of 1 is worse")
		}
	}
}

// A micro-benchmark that only one build has is left out.
func TestDuelOfWhatBothHave(t *testing.T) {
	var log []string
	a := &build{name: "A", log: &log, seconds: constant(1), micros: []string{"null", "launch-sync"}}
	b := &build{name: "B", log: &log, seconds: constant(1), micros: []string{"launch-sync", "copy-loop"}}
	r, err := Duel{Pairs: []Pair{{a, b}}, Micro: true, Runs: LeastRounds}.Run(t.Context(), silent)
	require.NoError(t, err)
	require.Len(t, r.Rows, 1)
	require.Equal(t, "launch-sync", r.Rows[0].Figure)
	require.InDelta(t, 1, r.Rows[0].Ours, 1e-9)
}

func TestDuelFailures(t *testing.T) {
	var log []string
	a := &build{name: "A", log: &log, seconds: constant(1), wrong: true}
	b := &build{name: "B", log: &log, seconds: constant(1)}
	d := Duel{Pairs: []Pair{{a, b}}, Benches: []string{"madd"}, Runs: LeastRounds}
	r, err := d.Run(t.Context(), silent)
	require.NoError(t, err)
	require.Equal(t, []string{"madd (this build, local)"}, r.Wrong)

	b.fails = errors.New("the agent is gone")
	_, err = d.Run(t.Context(), silent)
	require.EqualError(t, err, "the other build, local: madd: the agent is gone")
}
