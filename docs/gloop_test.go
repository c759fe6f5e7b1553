package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/gloop/device"
)

// The tutorial's server is the example, whose PTX belongs to it, and which runs.
func TestEchoServer(t *testing.T) {
	source, err := os.ReadFile("../examples/gloop/echo.cu")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(source), "\n"), 30)
	ptx, err := os.ReadFile("../examples/gloop/echo.ptx")
	require.NoError(t, err)
	require.NoError(t, device.Check(ptx, source))

	page, err := os.ReadFile("gloop.md")
	require.NoError(t, err)
	var block strings.Builder
	for line := range strings.Lines(string(source)) {
		if line != "\n" {
			block.WriteString("    ")
		}
		block.WriteString(line)
	}
	require.Contains(t, string(page), "\n"+block.String())
}
