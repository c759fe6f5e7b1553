package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpace runs the script by which .ci/run looks whether the disk has room, with figures that any disk has and none.
func TestSpace(t *testing.T) {
	const none = "1000000000" // MB
	tmp := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(tmp, "pvdrm-bin-1"), 0o700))
	for _, test := range []struct {
		name, tmp, cache string
		fails            bool
		says             []string
	}{
		{name: "enough", tmp: "1", cache: "1"},
		{name: "no room for an empty cache", tmp: "1", cache: none, says: []string{"MB are free", "go clean -cache", filepath.Join(tmp, "pvdrm-bin-1")}},
		{name: "no room at all", tmp: none, cache: "1", fails: true, says: []string{"MB are free", "too little for any run"}},
	} {
		cmd := exec.Command("../scripts/space.sh", test.tmp, test.cache)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "GOTMPDIR=", "GOCACHE="+filepath.Join(t.TempDir(), "cache"))
		out, err := cmd.CombinedOutput()
		if test.fails {
			require.Error(t, err, test.name)
		} else {
			require.NoError(t, err, "%s: %s", test.name, out)
		}
		if test.says == nil {
			require.Empty(t, string(out), test.name)
		}
		for _, text := range test.says {
			require.Contains(t, string(out), text, test.name)
		}
	}
	missing := exec.Command("../scripts/space.sh", none)
	missing.Env = append(os.Environ(), "TMPDIR="+filepath.Join(tmp, "gone"))
	require.Error(t, missing.Run(), "there is no directory for temporary files")
}
