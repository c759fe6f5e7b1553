package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPreemptReport(t *testing.T) {
	var times []time.Duration
	for i := range 101 {
		times = append(times, time.Duration(100-i)*time.Millisecond)
	}
	r := PreemptReport{Date: time.Unix(0, 0), Command: "pvdrm bench preempt <x>", Rows: []PreemptRow{
		NewPreemptRow(PreemptOff, "softgpu", "band", times, 0), NewPreemptRow(PreemptOn, "softgpu", "band", nil, 3)}}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	lines := bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
	require.Len(t, lines, 2)
	var row map[string]any
	require.NoError(t, json.Unmarshal(lines[0], &row))
	require.Equal(t, map[string]any{"preempt": "off", "device": "softgpu", "policy": "band", "count": 101.0,
		"p50_us": 50_000.0, "p90_us": 90_000.0, "p99_us": 99_000.0, "max_us": 100_000.0}, row)
	require.JSONEq(t, `{"preempt":"on","device":"softgpu","policy":"band","count":0,"p50_us":0,"p90_us":0,"p99_us":0,"max_us":0,"lost":3}`, string(lines[1]))
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.Contains(t, b.String(), "pvdrm bench preempt &lt;x&gt;")
	require.Contains(t, b.String(), "off, band, p99: 99000 µs")
	require.Contains(t, b.String(), "<svg")
}
