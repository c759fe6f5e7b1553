package ptx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/tests/ptx/internal/fixture"
	"pvdrm/tests/ptx/internal/random"
)

// FuzzEngines runs random kernels on the fast engine and on the reference
// interpreter, with native code, without, and in parts, which must agree in every bit, NaNs included. What it finds is
// kept in testdata/fuzz and, where the GPU has the last word, becomes a fixture.
func FuzzEngines(f *testing.F) {
	for _, seed := range []string{"", "\x00\x80\xff", "branches", "shuffle and vote", "loops in loops"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // a kernel makes fewer choices
		}
		compareEngines(t, random.FromBytes(data))
		compareEngines(t, random.InClusters(data))
	})
}

// compareEngines runs a kernel on all engines.
func compareEngines(t *testing.T, source string) {
	k, err := fixture.Parse("fuzz", []byte(source))
	require.NoError(t, err)
	want, err := runRef(k)
	require.NoError(t, err, source)
	if parts, _, err := runDivided(k, 1); err != nil {
		t.Fatalf("in parts: %v\n%s", err, source)
	} else if diffs, _ := k.Compare(parts, want); len(diffs) > 0 {
		t.Fatalf("exec in parts differs from ref in %d values, the first: %v\n%s", len(diffs), diffs[0], source)
	}
	for _, e := range engines[:3] {
		got, err := e.run(k)
		require.NoError(t, err, source)
		diffs, _ := k.Compare(got, want)
		if len(diffs) > 0 {
			t.Fatalf("%s differs from ref in %d values, the first: %v\n%s", e.name, len(diffs), diffs[0], source)
		}
	}
}
