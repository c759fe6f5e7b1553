package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench/micro"
	"pvdrm/internal/suite"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "make it with go test -update")
	require.Equal(t, string(want), string(got))
}

// example is a report on made-up runs. Program p takes longer from place to place.
func example() Report {
	series := []Series{{Native, Full}, {Local, Full}, {Local, "nopool"}, {VM, Full}, {Floor, Full}}
	factor := map[Series]float64{series[0]: 1, series[1]: 1.01, series[2]: 1.5, series[3]: 8, series[4]: 0.3}
	var samples []Sample
	var micros []Micro
	for round := range 3 {
		for i, b := range []string{"nop", "madd", "srad"} {
			for _, s := range series {
				t := factor[s] * []float64{0.0001, 0.06, 2}[i] * (1 + 0.01*float64(round))
				r := suite.Result{Bench: b, Verified: s.Mode != Floor, Seconds: suite.Phases{Init: t / 10, Close: t * 9 / 10}}
				if b != "nop" {
					r.Seconds = suite.Phases{Init: t / 10, HtoD: t / 5, Launch: t / 2, DtoH: t / 10, Close: t / 10}
				}
				if s.Mode == Local || s.Mode == VM {
					r.Doorbells, r.Interrupts = uint64(3*i), uint64(40*i)
				}
				samples = append(samples, NewSample(s, round, r, t/2))
			}
		}
	}
	for _, s := range []Series{series[0], series[1], series[3]} {
		micros = append(micros, newMicro(s, micro.Result{Micro: "null", NS: 900 * factor[s], BaselineNS: 1000}))
	}
	var clang []Sample
	for round := range 3 {
		for i, b := range []string{"fmadd", "nn"} {
			run := func(m Mode, t float64) Sample {
				return NewSample(Series{m, Full}, round, suite.Result{Bench: b, Verified: true, Seconds: suite.Phases{Launch: t}}, 0)
			}
			clang = append(clang, run(Clang, 0.001), run(Native, 0.001*float64(2+6*i+round)))
		}
	}
	none := &micro.Exits{}
	micros = append(micros,
		newMicro(series[1], micro.Result{Micro: "null-batched", NS: 250, BaselineNS: 900}),
		newMicro(series[1], micro.Result{Micro: "launch-loop", NS: 5000, BaselineNS: 0, Exits: none}),
		newMicro(series[3], micro.Result{Micro: "copy-loop", NS: 5e6, BaselineNS: 4e6, Exits: &micro.Exits{Doorbells: 2, Interrupts: 1}}),
		newMicro(series[1], micro.Result{Micro: "copy-64M", NS: 1.2e7, BaselineNS: 1e7}),
		newMicro(series[3], micro.Result{Micro: "alloc-64M", NS: 1e5, BaselineNS: 2e8}),
	)
	return Report{
		Header: Header{
			Date: time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC), Command: "pvdrm bench --html <report>", Runs: 4,
			Facts: []Fact{{"host", "Linux 6.1, 2 processors: Some & Other"}, {"pvdrm", "v1"}},
		},
		Rows: Rows(samples), Micros: micros, Clang: ClangRows(clang, "avx512"),
	}
}

func TestFormats(t *testing.T) {
	r := example()
	for name, write := range map[string]func(io.Writer) error{
		"report.txt": r.WriteText, "report.json": r.WriteJSON, "report.csv": r.WriteCSV, "report.html": r.WriteHTML,
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, write(&b))
			golden(t, name, b.Bytes())
			require.Error(t, write(fullDisk{}))
		})
	}
}

// fullDisk refuses all writes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// Each line of JSON has the fields that are documented.
func TestJSONFields(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, example().WriteJSON(&b))
	rows, micros, clang := 0, 0, 0
	for line := range strings.Lines(b.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if _, ok := fields["micro"]; ok {
			micros++
			for _, f := range []string{"micro", "mode", "config", "ns", "baseline_ns"} {
				require.Contains(t, fields, f)
			}
			continue
		}
		if _, ok := fields["clang"]; ok {
			clang++
			for _, f := range []string{"clang", "ratio", "p10", "p90", "verified"} {
				require.Contains(t, fields, f)
			}
			for _, f := range []string{"softgpu", "native"} {
				require.Equal(t, fields["clang"] != GeometricMean, fields[f] != nil, f)
			}
			continue
		}
		rows++
		want := []string{"bench", "mode", "config", "phase", "seconds", "p10", "p90", "ratio", "doorbells", "interrupts", "verified"}
		require.Len(t, fields, len(want))
		for _, f := range want {
			require.Contains(t, fields, f)
		}
	}
	require.Equal(t, 3*5*int(phases), rows)
	require.Equal(t, 8, micros)
	require.Equal(t, 3, clang)
}

func TestHTMLNeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, example().WriteHTML(&b))
	page := b.String()
	require.NotContains(t, page, "src=")
	require.NotContains(t, page, "href=")
	require.NotContains(t, page, "@import")
	require.NotContains(t, page, "<report>", "text is escaped")
	require.Equal(t, 6, strings.Count(page, "<svg"), "phases twice, doorbells, ratios, one ablation, C")
}

func TestFailures(t *testing.T) {
	bad := func(mode Mode, bench string) Sample { return Sample{Bench: bench, Series: Series{mode, Full}} }
	r := Report{Rows: Rows([]Sample{bad(Local, "madd"), bad(Floor, "madd"), {Bench: "nop", Series: Series{Local, Full}, Verified: true}})}
	require.Equal(t, []string{"madd (local)"}, r.Failures())
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "WRONG RESULTS: madd (local)")
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.Contains(t, b.String(), "Wrong results: madd (local)")
}

// Nothing but micro-benchmarks, or nothing at all, is a report too.
func TestSmallReports(t *testing.T) {
	micros := Report{Micros: example().Micros}
	for _, r := range []Report{{}, micros} {
		for _, write := range []func(io.Writer) error{r.WriteText, r.WriteJSON, r.WriteCSV, r.WriteHTML} {
			require.NoError(t, write(io.Discard))
		}
		require.Empty(t, r.figures())
	}
	require.Empty(t, Report{}.Targets())
	require.NotEmpty(t, micros.Targets())
}

func TestTargets(t *testing.T) {
	r := example()
	met := map[string]bool{}
	for _, x := range r.Targets() {
		met[x.Figure] = x.Met
	}
	require.Equal(t, map[string]bool{
		"null ioctl in a machine":                                              false,
		"null ioctl of a local guest":                                          true,
		"batched null operations, local":                                       true,
		"doorbells of nop/madd/srad, vm":                                       true,
		"doorbells of nop/madd/srad, local":                                    true,
		"doorbells, grants in launch-loop, local":                              true,
		"doorbells, grants in copy-loop, vm":                                   false,
		"second allocation of 64 MiB, vm":                                      true,
		"64 MiB through granted pages, local":                                  false,
		"kernels on the software GPU against C, geometric mean, avx512":        false,
		"the same, worst of those that take C 100 us or more":                  false,
		"nop as a local guest":                                                 true,
		"local guest against native, the 2 programs of 50 ms or more, average": true,
		"the same, at most":                                                    true,
	}, met)
	for i := range r.Rows {
		r.Rows[i].Doorbells += 5
		if r.Rows[i].Mode == Local && r.Rows[i].Ratio != nil {
			*r.Rows[i].Ratio += 0.03
		}
	}
	for _, x := range r.Targets() {
		switch {
		case strings.HasPrefix(x.Figure, "doorbells of"):
			require.False(t, x.Met, x.Figure)
			require.Equal(t, "5/8/11", x.Found)
		case strings.HasPrefix(x.Figure, "local guest against"):
			require.False(t, x.Met)
			require.Equal(t, "1.040", x.Found)
		case x.Figure == "the same, at most":
			require.True(t, x.Met)
		}
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	bars := []bar{{"x", []part{{"red", 1}, {"blue", 3}}}, {"unknown", nil}, {"nothing", []part{{"red", 0}}}}
	c := chart{unit: "<s>", top: 2, line: 1, legend: []swatch{{"a & b", "red"}}, groups: []group{{"one", bars}}}
	logarithmic, empty := c, chart{}
	logarithmic.log = true
	for _, c := range []chart{c, logarithmic, empty, {log: true}} {
		svg := c.svg()
		require.NotContains(t, svg, "NaN")
		require.NotContains(t, svg, "Inf")
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, svg)
		}
	}
	svg := c.svg()
	require.Contains(t, svg, `>4</text>`, "the bar that was cut is labeled")
	require.Contains(t, svg, `>?</text>`)
	require.Contains(t, svg, `>0</text>`)
}

func TestAxis(t *testing.T) {
	a := chart{}.axis(1, 3.2)
	require.Equal(t, 3.5, a.high)
	require.Len(t, a.ticks, 8)
	require.InDelta(t, chartTop, a.y(3.5), 1e-9)
	require.InDelta(t, chartTop+chartHeight, a.y(0), 1e-9)
	a = chart{log: true}.axis(3, 11383)
	require.Equal(t, []float64{1, 10, 100, 1000, 10000, 100000}, a.ticks)
	require.InDelta(t, chartTop+chartHeight, a.y(0), 1e-9)
	require.InDelta(t, chartTop+chartHeight*0.8, a.y(10), 1e-9)
	require.Equal(t, 0.1, chart{log: true}.axis(1, 5).low, "the shortest bar has a length")
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2.5e-9: "2.5 ns", 1.234e-6: "1.23 us", 0.0123: "12.3 ms", 12.34: "12.3 s"} {
		require.Equal(t, want, seconds(v))
	}
	for v, want := range map[float64]string{1.0349: "1.035", 12.34: "12.3", 389: "389"} {
		require.Equal(t, want, factor(v))
	}
	require.Equal(t, "11.38k", tick(11383))
	require.Equal(t, "0.5", tick(0.5))
}
