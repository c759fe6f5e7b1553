package tests

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMesaInAVirtualMachine runs what `make demo-gl` shows: Debian's Mesa renders in
// a guest, and the pictures, off screen and on its screen, are those of the host.
func TestMesaInAVirtualMachine(t *testing.T) {
	dir := builtForMesa(t)
	pictures := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../scripts/demo-gl.sh", pictures)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it ends the machine
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = append(cmd.Environ(), "PVDRM_BIN="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "`make deps` with PVDRM_DEPS=test installs what is missing\n%s", out)
	t.Logf("%s", out)
	require.Equal(t, 9, strings.Count(string(out), "on virgl ("), "a line for each scene, off screen and on the screen, and for the one with a pointer")
	files, err := filepath.Glob(filepath.Join(pictures, "*.png"))
	require.NoError(t, err)
	require.Len(t, files, 3*4+2)
}

// builtForMesa is the directory of pvdrm with what the image mesa takes from there.
func builtForMesa(t *testing.T) string {
	dir, err := built()
	require.NoError(t, err)
	_, err = libcudaDir()
	require.NoError(t, err)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "guest", "glscene"), "pvdrm/cmd/glscene")
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // as in the image
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}
