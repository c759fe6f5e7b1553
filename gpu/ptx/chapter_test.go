package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRowHasAChapter(t *testing.T) {
	known := map[string]bool{}
	for _, s := range chapters {
		known[s.Number] = true
	}
	syntax := map[string]bool{}
	for n, f := range Forms() {
		require.Equal(t, n, f.Index)
		require.True(t, known[f.Section], f.Syntax())
		require.False(t, syntax[f.Syntax()], "two rows read %s", f.Syntax())
		syntax[f.Syntax()] = true
	}
	for op := OpRaw + 1; op < numOps; op++ {
		require.NotEmpty(t, theTable().byOp[op], op)
	}
}
