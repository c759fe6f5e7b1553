package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBenchTReM(t *testing.T) {
	run := func(args ...string) (string, error) {
		c := newBenchTReM(&global{})
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetArgs(args)
		return out.String(), c.Execute()
	}
	file, page := filepath.Join(t.TempDir(), "trem.json"), filepath.Join(t.TempDir(), "trem.html")
	_, err := run("--simulate", "--seeds", "1", "--loads", "1", "--policies", "elastic", "--json", file, "--html", page)
	require.NoError(t, err)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	require.Len(t, lines, 2, "two mixes")
	for _, line := range lines {
		var row map[string]any
		require.NoError(t, json.Unmarshal(line, &row))
		for _, field := range []string{"experiment", "policy", "load", "mix", "sla_met", "revocations", "lost"} {
			require.Contains(t, row, field)
		}
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, figure := range []string{"Figure 4.6", "Figure 4.7", "Figure 4.8", "TReM, published"} {
		require.Contains(t, string(text), figure)
	}
	for _, args := range [][]string{{"--count", "0"}, {"--simulate", "--seeds", "0"}, {"--simulate", "--policies", "luck"}, {"--simulate", "--gpus", "0"}, {"--simulate", "--gpus", "-1"}} {
		_, err := run(args...)
		require.ErrorAs(t, err, new(usageError), args)
	}
}
