package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm/trace"
)

// The table of operations in trace.md is that of the package.
func TestTraceOperations(t *testing.T) {
	text, err := os.ReadFile("trace.md")
	require.NoError(t, err)
	names := func(fields []trace.Field) string {
		var list []string
		for _, f := range fields {
			list = append(list, f.Name)
		}
		return strings.Join(list, ", ")
	}
	last := trace.Op(1)
	for op := trace.Op(1); ; op++ {
		info, ok := op.Info()
		if !ok {
			break
		}
		last = op
		row := fmt.Sprintf("| %d | %s | %s | %s | %s | %s |\n", op, info.Name, names(info.In), strings.Join(info.InBytes, ", "), names(info.Out), strings.Join(info.OutBytes, ", "))
		require.Contains(t, string(text), row)
	}
	_, table, ok := strings.Cut(string(text), "| | operation")
	require.True(t, ok)
	require.Equal(t, int(last), strings.Count(table, "\n| "), "rows of operations that are no more")
}
