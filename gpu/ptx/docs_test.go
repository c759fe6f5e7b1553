package ptx

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocsAreCurrent(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteDocs(&b))
	file, err := os.ReadFile("../../docs/ptx.md")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(file), `docs/ptx.md is old: run "go generate ./gpu/ptx"`)
}

func TestEveryRowHasASection(t *testing.T) {
	known := map[string]bool{}
	for _, s := range sections {
		known[s.number] = true
	}
	syntax := map[string]bool{}
	for n, f := range Forms() {
		require.Equal(t, n, f.Index)
		require.True(t, known[f.Section], f.Syntax())
		require.False(t, syntax[f.Syntax()], "two rows read %s", f.Syntax())
		syntax[f.Syntax()] = true
		require.Equal(t, f.Status == Refused, f.Op == OpRefused, f.Syntax())
	}
	for op := OpRefused + 1; op < numOps; op++ {
		require.NotEmpty(t, theTable().byOp[op], op)
	}
}
