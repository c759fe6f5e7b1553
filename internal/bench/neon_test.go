package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNeonReport(t *testing.T) {
	requests := []time.Duration{100 * time.Microsecond, 300 * time.Microsecond}
	direct := NewNeonRow(NeonPair, "simulation", "direct", requests, 0.5, []float64{25, 90}, []float64{100, 100}, 0)
	require.InDelta(t, 1.15, direct.Direct, 1e-9)
	row := NewNeonRow(NeonPair, "simulation", "dfq", requests, 0.5, []float64{50, 40}, []float64{100, 100}, direct.Direct)
	r := NeonReport{Rows: []NeonRow{direct, row, NewNeonRow(NeonAlone, "simulation", "dfq", requests[:1], 0, []float64{0}, []float64{0}, 0)}}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var got map[string]any
	d := json.NewDecoder(&b)
	require.NoError(t, d.Decode(&got))
	require.NoError(t, d.Decode(&got))
	for field, want := range map[string]any{"experiment": "pair", "policy": "dfq", "request_us": 100.0, "off": 0.5, "slowdown": 2.0, "efficiency": 0.9, "others": []any{2.5}, "beside_us": []any{300.0}} {
		require.Equal(t, want, got[field], field)
	}
	b.Reset()
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "21.7 %", "lost of 1.15")
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.Equal(t, 4, bytes.Count(b.Bytes(), []byte("<svg")), "two of each experiment")
}
