package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpecification checks that each promise of SPECIFICATION.md names tests or
// benchmarks, and that these exist.
func TestSpecification(t *testing.T) {
	page, err := os.ReadFile("SPECIFICATION.md")
	require.NoError(t, err)
	promises := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise |") {
			continue
		}
		promises++
		cells := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, cells, 2, line)
		requireTests(t, cells[1])
	}
	require.Greater(t, promises, 30)
}
