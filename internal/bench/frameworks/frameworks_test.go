package frameworks

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir))
	for _, name := range append(slices.Clone(Names), Programs) {
		text, err := os.ReadFile(filepath.Join(dir, Program(name)))
		require.NoError(t, err)
		require.Contains(t, string(text), `print("pvdrm:"`)
	}
	require.Error(t, Write(filepath.Join(dir, "none")))
}

// runOf reads what a program printed.
func runOf(t *testing.T, framework, place string, round int, lines ...string) Run {
	t.Helper()
	r := Run{Framework: framework, Place: place, Round: round}
	require.NoError(t, r.Read([]byte(strings.Join(lines, "\n"))))
	return r
}

func TestRead(t *testing.T) {
	r := runOf(t, "torch", Native, 0, "a warning", `pvdrm:{"versions": "PyTorch 2", "device": "GPU"}`,
		`pvdrm:{"result": "sort", "digest": "ab"}`, `...pvdrm:{"figure": "eager", "unit": "us", "values": [3, 1, 2]}`, `pvdrm:{"failed": "cnn", "error": "no cuDNN"}`)
	require.Equal(t, map[string]string{"sort": "ab"}, r.Results)
	require.Equal(t, map[string]string{"cnn": "no cuDNN"}, r.Failed)
	require.Equal(t, []Figure{{Name: "eager", Unit: "us", Values: []float64{3, 1, 2}}}, r.Figures)
	require.Equal(t, "PyTorch 2", r.Versions)
	for _, bad := range []string{"pvdrm:{", `pvdrm:{"values": 1}`, "pvdrm:" + strings.Repeat(" ", longestLine), strings.Repeat(`pvdrm:{"result": "x", "digest": "y"}`+"\n", mostLines+1)} {
		require.Error(t, new(Run).Read([]byte(bad)))
	}
}

func TestReport(t *testing.T) {
	r := Report{Places: []string{Native, "local", "vm"}, Runs: []Run{
		runOf(t, "torch", Native, 0, `pvdrm:{"result": "a", "digest": "1"}`, `pvdrm:{"result": "b", "digest": "2"}`, `pvdrm:{"result": "c", "digest": "3"}`, `pvdrm:{"result": "time", "digest": "4"}`, `pvdrm:{"figure": "f", "unit": "us", "values": [10, 20, 30]}`),
		runOf(t, "torch", "local", 0, `pvdrm:{"result": "a", "digest": "1"}`, `pvdrm:{"result": "b", "digest": "9"}`, `pvdrm:{"figure": "f", "unit": "us", "values": [25, 25]}`),
		runOf(t, "torch", Native, 1, `pvdrm:{"result": "a", "digest": "1"}`, `pvdrm:{"result": "b", "digest": "2"}`, `pvdrm:{"result": "c", "digest": "3"}`, `pvdrm:{"result": "time", "digest": "5"}`, `pvdrm:{"figure": "f", "unit": "us", "values": [10]}`),
		runOf(t, "torch", "local", 1, `pvdrm:{"result": "a", "digest": "1"}`, `pvdrm:{"result": "b", "digest": "2"}`, `pvdrm:{"figure": "f", "unit": "us", "values": [12.5]}`, `pvdrm:{"failed": "c", "error": "lacks"}`),
		runOf(t, "torch", "vm", 0, `pvdrm:{"result": "a", "digest": "1"}`, `pvdrm:{"result": "b", "digest": "2"}`, `pvdrm:{"result": "c", "digest": "3"}`),
	}}
	require.Equal(t, []Row{{Framework: "torch", Name: "f", Unit: "us", Median: map[string]float64{Native: 15, "local": 25}, Ratio: map[string]float64{"local": 1.25}}}, r.Rows())
	require.Equal(t, []Verdict{
		{Framework: "torch", Place: "local", Equal: 1, Different: []string{"b"}, Missing: []string{"c"}},
		{Framework: "torch", Place: "vm", Equal: 3},
	}, r.Verdicts(), "what two native runs do not agree on says nothing")
	require.True(t, r.Wrong())
	var text, file bytes.Buffer
	require.NoError(t, r.Text(&text))
	require.Contains(t, text.String(), "torch, local: 1 results equal the native ones; different: b; missing: c\n")
	require.Contains(t, text.String(), "torch, local, round 1: c failed: lacks\n")
	require.Regexp(t, `f +us +15 +25 +1\.250 +– +–`, text.String())
	require.NoError(t, r.JSON(&file))
	var back struct {
		Figures []Row     `json:"figures"`
		Runs    []Run     `json:"runs"`
		Verdict []Verdict `json:"verdicts"`
	}
	require.NoError(t, json.Unmarshal(file.Bytes(), &back))
	require.Len(t, back.Runs, 5)
	require.Equal(t, r.Rows(), back.Figures)
	r.Runs = r.Runs[4:]
	require.False(t, r.Wrong(), "there is nothing to compare with")
}
