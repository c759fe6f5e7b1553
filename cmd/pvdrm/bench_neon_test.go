package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench"
)

func TestBenchNEON(t *testing.T) {
	run := func(args ...string) error {
		c := newBenchNEON(&global{})
		c.SetOut(new(bytes.Buffer))
		c.SetArgs(args)
		return c.Execute()
	}
	file := filepath.Join(t.TempDir(), "neon.json")
	require.NoError(t, run("--simulate", "--requests", "100us,1700us", "--policies", "dfq,dtimeslice", "--length", "2s", "--json", file))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	seen := map[string]int{}
	for line := range bytes.Lines(b) {
		var row bench.NeonRow
		require.NoError(t, json.Unmarshal(line, &row))
		seen[row.Experiment+" "+row.Policy]++
		if row.Experiment == bench.NeonPair && row.Policy == "dfq" {
			require.InDelta(t, 2, row.Slowdown, 0.3)
		}
	}
	require.Len(t, seen, 4*3)
	require.Equal(t, 4, seen["pair dfq"])
	require.Equal(t, 5, seen["off direct"])
	for _, args := range [][]string{{"--length", "0"}, {"--simulate", "--requests", "1h"}, {"--simulate", "--policies", "luck"}} {
		require.ErrorAs(t, run(args...), new(usageError), args)
	}
}
