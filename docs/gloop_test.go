package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/gloop/device"
)

// The tutorial's programs are the examples, whose PTX belongs to them, and which run.
func TestTutorial(t *testing.T) {
	for file, most := range map[string]int{"echo.cu": 30, "throttle/throttle.cu": 12} {
		source, err := os.ReadFile("../examples/gloop/" + file)
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(source), "\n"), most)
		ptx, err := os.ReadFile("../examples/gloop/" + strings.TrimSuffix(file, ".cu") + ".ptx")
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
}
