package simt

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// lanes_gen.go is what the table says.
func TestGenerated(t *testing.T) {
	made := filepath.Join(t.TempDir(), "lanes_gen.go")
	out, err := exec.Command("go", "run", "./internal/lanegen", "-o", made).CombinedOutput()
	require.NoError(t, err, string(out))
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	got, err := os.ReadFile("lanes_gen.go")
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "run go generate in gpu/softgpu/simt")
}
