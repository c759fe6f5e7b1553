package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary stand in for a child with a GPU: fixtures whose
// names say so fail, fault, or kill the child.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Args, "-child") {
		os.Exit(m.Run())
	}
	encoder, lines := json.NewEncoder(os.Stdout), bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		r := result{Path: lines.Text(), Text: "text of " + lines.Text() + "\n"}
		switch {
		case strings.Contains(r.Path, "crash"):
			os.Exit(2)
		case strings.Contains(r.Path, "bad"):
			r.Text, r.Error = "", "not assembled"
		}
		if err := encoder.Encode(&r); err != nil {
			os.Exit(3)
		}
		if strings.Contains(r.Path, "fault") {
			os.Exit(0)
		}
	}
	os.Exit(0)
}

func TestRecordSurvivesFaultsAndCrashes(t *testing.T) {
	for _, c := range []struct {
		names    string
		recorded string
		failed   string
	}{
		{names: "a b c", recorded: "a b c"},
		{names: "a bad c", recorded: "a c", failed: "1 of 3"},
		{names: "a fault1 fault2 z", recorded: "a fault1 fault2 z"},
		{names: "a crash1 crash2 z", recorded: "a z", failed: "2 of 4"},
		{names: "a z_crash", recorded: "a", failed: "1 of 2"},
	} {
		t.Chdir(t.TempDir())
		for _, name := range strings.Fields(c.names) {
			require.NoError(t, os.WriteFile(name+".ptx", nil, 0o644))
		}
		err := record(0, defaultLevel, "", "x.txtar", []string{"."})
		if c.failed == "" {
			require.NoError(t, err, c.names)
		} else {
			require.ErrorContains(t, err, c.failed, c.names)
		}
		require.NoError(t, unpack("x.txtar"))
		files, err := filepath.Glob("*.out")
		require.NoError(t, err)
		require.Len(t, files, len(strings.Fields(c.recorded)), c.names)
		for _, name := range strings.Fields(c.recorded) {
			text, err := os.ReadFile(name + ".out")
			require.NoError(t, err, c.names)
			require.Equal(t, "text of "+name+".ptx\n", string(text))
		}
	}
}

func TestRecordWithoutGPU(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("crash.ptx", nil, 0o644))
	require.Error(t, record(0, defaultLevel, "", "x.txtar", []string{"."}))
	require.NoFileExists(t, "x.txtar")
}

func TestUnpackRefusesOtherPlaces(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"../x.out", "/tmp/x.out", "x.go"} {
		require.NoError(t, os.WriteFile("a.txtar", []byte("-- "+name+" --\nx\n"), 0o644))
		require.ErrorContains(t, unpack("a.txtar"), "not that of a recording", name)
	}
}
