package ptx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/tests/ptx/internal/fixture"
)

// TestUnrecorded runs the fixtures that no GPU has run yet on all engines, which must agree
// with the reference interpreter in every bit. One that has a recording belongs into a
// folder of those that TestCorpus compares with it.
func TestUnrecorded(t *testing.T) {
	files, err := filepath.Glob("matrix/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			name := strings.TrimSuffix(file, ".ptx")
			require.NoFileExists(t, name+".out")
			f, err := fixture.Parse(name, source)
			require.NoError(t, err)
			want, err := runRef(f)
			require.NoError(t, err)
			for _, e := range engines {
				got, err := e.run(f)
				require.NoError(t, err, e.name)
				diffs, _ := f.Compare(got, want)
				if len(diffs) > 0 {
					t.Fatalf("%s differs from ref in %d values, the first: %v", e.name, len(diffs), diffs[0])
				}
			}
		})
	}
}
