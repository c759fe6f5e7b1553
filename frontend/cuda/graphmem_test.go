package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Launches without a wait between them do not make a list of all that was queued.
func TestGraphMemoryKnowsTheLatestWork(t *testing.T) {
	c, f, a, b := newPooled(t)
	m, err := c.NewGraphMem(64)
	require.NoError(t, err)
	ops := []GraphMemOp{{Mem: m}, {Mem: m, Free: true}}
	for range 5 {
		for _, s := range []*Stream{a, b} {
			require.NoError(t, c.UseGraphMem(ops, false))
			add(t, f, s, m.Addr(), 1)
			require.NoError(t, c.GraphMemQueued(ops, s))
		}
	}
	isResult(t, ErrNotReady, a.Query())
	require.Equal(t, []point{{a, a.last}, {b, b.last}}, m.after)
	require.NoError(t, m.Release())
	require.NoError(t, c.Synchronize())
	require.Empty(t, c.memory.graphs)
}
