package table

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The generated files are what the table says.
func TestGenerated(t *testing.T) {
	made := t.TempDir()
	out, err := exec.Command("go", "run", "../internal/lanegen", "-o", made).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, name := range []string{"lanes_gen.go", "lanes_simd_gen.go"} {
		want, err := os.ReadFile(filepath.Join(made, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s: run go generate in gpu/softgpu/exec/lane/table", name)
	}
}
