package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDivisionReport(t *testing.T) {
	task := func(kind string, seconds int) DivisionTask {
		return DivisionTask{kind, time.Duration(seconds) * time.Second}
	}
	runs := [][]DivisionTask{
		{task("a", 1), task("a", 3), task("b", 10), task("b", 10)}, // a: mean 2, deviation 1
		{task("a", 2), task("a", 2), task("b", 10), task("b", 30)}, // b: mean 20, deviation 10
		{task("a", 2), task("a", 2), task("b", 4), task("b", 4)},
	}
	row := NewDivisionRow("x", "band", runs, []time.Duration{time.Second, 2 * time.Second})
	require.Equal(t, 0.5, row.Deviation)
	require.Equal(t, 3.0, row.MaxMin)
	require.Equal(t, 6.0, row.Mean)
	require.Equal(t, 10.0, row.Last)
	r := DivisionReport{Rows: []DivisionRow{row, NewDivisionRow("x", "fifo", runs[2:], nil), NewDivisionRow("<y>", "fifo", runs[2:], nil)}}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var got map[string]any
	require.NoError(t, json.NewDecoder(&b).Decode(&got))
	for field, want := range map[string]any{"experiment": "x", "policy": "band", "guests": 4.0, "deviation": 0.5, "max_min": 3.0} {
		require.Equal(t, want, got[field], field)
	}
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.Equal(t, 2, strings.Count(b.String(), "<svg"), "one of each experiment")
	require.Contains(t, b.String(), "&lt;y&gt;")
	require.NotContains(t, b.String(), "of the paper")
	require.Contains(t, b.String(), "band: 1 to 30, median 3.5 s")
}

func TestBox(t *testing.T) {
	require.Equal(t, [5]float64{1, 2, 3, 4, 5}, newBox("", []float64{5, 3, 1, 2, 4}).marks)
	require.Equal(t, [5]float64{}, newBox("", nil).marks)
}

// The paper's experiments name its figures.
func TestDivisionPublished(t *testing.T) {
	var b bytes.Buffer
	r := DivisionReport{Rows: []DivisionRow{NewDivisionRow("binomial-10m", "fifo", [][]DivisionTask{{{Kind: "a", Took: time.Second}}}, nil)}}
	require.NoError(t, r.WriteHTML(&b))
	require.Contains(t, b.String(), "Figure 10 of the paper")
}
