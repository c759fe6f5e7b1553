package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// bench frameworks runs its programs in each place and compares what they say. A stand-in for Python says
// something else as a local guest where it is told to.
func TestBenchFrameworks(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte(`#!/bin/sh
test -f "$1" || exit 9
echo 'pvdrm:{"versions": "stand-in", "device": "none"}'
echo "pvdrm:{\"result\": \"r $2\", \"digest\": \"${PVDRM_SOCKET:+$DIFFERS}1\"}"
echo 'pvdrm:{"figure": "f", "unit": "us", "values": [1, 2, 3]}'
exit "${CODE:-0}"
`), 0o755))
	out := filepath.Join(t.TempDir(), "out.json")
	args := []string{"bench", "frameworks", "--frameworks", "torch,jax", "--groups", "matmul", "--runs", "2", "--python", python, "--json", out}
	code, text := start(t, args...).wait(t)
	require.Zero(t, code, text)
	require.Contains(t, text, "torch, local: 1 results equal the native ones\njax, local: 1 results equal the native ones\n")
	require.Regexp(t, `f +us +2 +2 +1\.000`, text)
	written, err := os.ReadFile(out)
	require.NoError(t, err)
	var report struct{ Runs []any }
	require.NoError(t, json.Unmarshal(written, &report))
	require.Len(t, report.Runs, 8)

	t.Setenv("DIFFERS", "7")
	code, text = start(t, args...).wait(t)
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "torch, local: 0 results equal the native ones; different: r matmul\n")
	t.Setenv("DIFFERS", "")
	t.Setenv("CODE", "3")
	code, text = start(t, args...).wait(t)
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "torch, native, round 0: exit status 3")

	for _, bad := range [][]string{{"--frameworks", "tensorflow"}, {"--places", "moon"}, {"--runs", "0"}, {"--groups", "nonsense"}} {
		code, text = start(t, append([]string{"bench", "frameworks"}, bad...)...).wait(t)
		require.Equal(t, 2, code, text)
	}
}
