package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench/micro"
)

// fakePlace takes a second for each round, times its factor, in all phases together.
type fakePlace struct {
	series Series
	factor float64
	broken string // a program that cannot be run
	log    *[]string
}

func (p fakePlace) Series() Series { return p.series }

func (p fakePlace) Run(_ context.Context, bench string, round int) (Sample, error) {
	*p.log = append(*p.log, fmt.Sprintf("%s@%s", bench, p.series))
	if bench == p.broken {
		return Sample{}, errors.New("the machine is gone")
	}
	t := float64(round+1) * p.factor
	return Sample{Bench: bench, Series: p.series, Round: round, Verified: true,
		Seconds: [phases]float64{t, t / 2, 0, t / 2, 0, 0}, Doorbells: uint64(10 * (round + 1)), Interrupts: 1}, nil
}

func (p fakePlace) Micro(context.Context) ([]micro.Result, error) {
	if p.broken == "micro" {
		return nil, errors.New("the machine is gone")
	}
	r := []micro.Result{
		{Micro: "launch-loop", NS: 100 * p.factor, Exits: &micro.Exits{Doorbells: 1, Interrupts: 2, Grants: 3}},
		{Micro: "null", NS: 10 * p.factor, BaselineNS: 5},
	}
	return r, nil
}

func TestPlanIsInterleaved(t *testing.T) {
	var log []string
	native := fakePlace{Series{Native, Full}, 1, "", &log}
	local := fakePlace{Series{Local, Full}, 2, "", &log}
	nopoll := fakePlace{Series{Local, "nopoll"}, 3, "", &log}
	var told []string
	samples, err := Plan{Benches: []string{"nop", "madd"}, Places: []Place{native, local, nopoll}, Runs: 3}.
		Run(t.Context(), func(s string) { told = append(told, s) })
	require.NoError(t, err)
	require.Equal(t, strings.Fields(`
		nop@native nop@local nop@local_nopoll   madd@native madd@local madd@local_nopoll
		nop@local nop@local_nopoll nop@native   madd@local madd@local_nopoll madd@native
		nop@local_nopoll nop@native nop@local   madd@local_nopoll madd@native madd@local`),
		strings.Fields(strings.ReplaceAll(strings.Join(log, "\n"), " ", "_")))
	require.Len(t, told, len(log))
	require.Equal(t, "run 1 of 3: nop, native", told[0])
	require.Len(t, samples, 12, "the first round is thrown away")

	rows := Rows(samples)
	require.Len(t, rows, 2*3*int(phases))
	r := find(rows, "madd", local.series, Total)
	require.InDelta(t, 5, r.Seconds, 1e-9, "the median of 4 and 6")
	require.InDelta(t, 2, *r.Ratio, 1e-9)
	require.Equal(t, Spread{2, 2, 2}, r.ratios, "within a round the ratio is always the same")
	require.EqualValues(t, 25, r.Doorbells)
	require.Nil(t, find(rows, "madd", local.series, HtoD).Ratio, "a phase that takes no time")
	require.Equal(t, []Row{rows[0], rows[6], rows[12]}, []Row{
		*find(rows, "nop", native.series, Total), *find(rows, "nop", local.series, Total), *find(rows, "nop", nopoll.series, Total)})
}

func TestSingleRunIsKept(t *testing.T) {
	var log []string
	samples, err := Plan{Benches: []string{"nop"}, Places: []Place{fakePlace{Series{Local, Full}, 1, "", &log}}, Runs: 1}.Run(t.Context(), func(string) {})
	require.NoError(t, err)
	require.Len(t, samples, 1)
	require.Nil(t, Rows(samples)[0].Ratio, "there is no native run")
}

// A place is not asked for what it lacks; the others are.
func TestPlaceThatLacksAProgram(t *testing.T) {
	var log []string
	places := []Place{fakePlace{Series{Native, Full}, 1, "", &log}, fakePlace{Series{PoCL, Full}, 1, "hmmul", &log}}
	lacks := func(s Series, bench string) bool { return s.Mode == PoCL && bench == "hmmul" }
	samples, err := Plan{Benches: []string{"nn", "hmmul"}, Places: places, Runs: 1, Lacks: lacks}.Run(t.Context(), func(string) {})
	require.NoError(t, err)
	require.Len(t, samples, 3)
	require.Equal(t, []string{"nn@native", "nn@pocl", "hmmul@native"}, log)
}

func TestBrokenPlace(t *testing.T) {
	var log []string
	p := Plan{Benches: []string{"nop", "madd"}, Places: []Place{fakePlace{Series{VM, Full}, 1, "madd", &log}}, Runs: 3}
	_, err := p.Run(t.Context(), func(string) {})
	require.EqualError(t, err, "madd, vm: the machine is gone")
	require.Len(t, log, 2)
	p.Places = []Place{fakePlace{Series{VM, Full}, 1, "micro", &log}}
	_, err = p.RunMicro(t.Context(), func(string) {})
	require.EqualError(t, err, "micro-benchmarks, vm: the machine is gone")
}

// What was run everywhere before somebody interrupts is not lost.
func TestInterruptedPlan(t *testing.T) {
	var log []string
	places := []Place{fakePlace{Series{Native, Full}, 1, "", &log}, fakePlace{Series{Local, Full}, 2, "madd", &log}}
	samples, err := Plan{Benches: []string{"nop", "madd"}, Places: places, Runs: 1}.Run(t.Context(), func(string) {})
	require.ErrorContains(t, err, "madd, local: the machine is gone")
	require.Len(t, samples, 2, "madd was run in one of two places")
	for _, s := range samples {
		require.Equal(t, "nop", s.Bench)
	}
}

func TestMicrosGetTheirBaseline(t *testing.T) {
	var log []string
	p := Plan{Places: []Place{
		fakePlace{Series{Native, Full}, 1, "", &log}, fakePlace{Series{Local, "nopool"}, 7, "", &log},
		fakePlace{Series{Floor, Full}, 1, "micro", &log}, // is not asked
	}}
	got, err := p.RunMicro(t.Context(), func(string) {})
	require.NoError(t, err)
	one, two, three := uint64(1), uint64(2), uint64(3)
	require.Equal(t, []Micro{
		{Micro: "null", Mode: Native, Config: Full, NS: 10, BaselineNS: 5},
		{Micro: "null", Mode: Local, Config: "nopool", NS: 70, BaselineNS: 5},
		{Micro: "launch-loop", Mode: Native, Config: Full, NS: 100, BaselineNS: 100, Doorbells: &one, Interrupts: &two, Grants: &three},
		{Micro: "launch-loop", Mode: Local, Config: "nopool", NS: 700, BaselineNS: 100, Doorbells: &one, Interrupts: &two, Grants: &three},
	}, got)
	p.Places = p.Places[1:2]
	got, err = p.RunMicro(t.Context(), func(string) {})
	require.NoError(t, err)
	_, ok := got[1].Ratio()
	require.False(t, ok, "nothing to compare with")
}

func TestConfigs(t *testing.T) {
	for name, want := range map[string]string{Full: "", "nopool": "nopool", "nopoll+nomulticall+nopool": "nopoll,nomulticall,nopool"} {
		require.NoError(t, CheckConfig(name))
		require.Equal(t, want, Switches(name))
	}
	for _, name := range []string{"", "fast", "nopool+", "nopool+full", "nopool,nopoll"} {
		require.Error(t, CheckConfig(name), name)
	}
	for _, name := range Ablation {
		require.NoError(t, CheckConfig(name))
	}
}
