package host_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/gloop/host"
)

// Runs with a pool use the memory of those before: as many in a row need no more than one. A run that needs
// more blocks, one that fails and several at the same time are right, too.
func TestPool(t *testing.T) {
	c := newContext(t, 2)
	pool := host.NewPool(c)
	cfg := config(t, c, "tasks", "tree")
	cfg.Pool, cfg.Block[0] = pool, 8
	run := func(blocks uint32) error {
		cfg := cfg
		cfg.Grid[0] = blocks
		out, read := words(t, c, int(blocks)*8)
		stats, err := host.Run(minute(t), cfg, out, uint32(5))
		if err == nil && (stats.Launches != 1 || read()[0] == 0 || read()[blocks*8-1] == 0) {
			err = errors.New("the kernel has not run as it should")
		}
		return errors.Join(err, c.MemFree(out))
	}
	free := func() uint64 {
		n, _, err := c.MemGetInfo()
		require.NoError(t, err)
		return n
	}
	none := cfg
	none.Pool = nil
	require.ErrorContains(t, host.Prepare(none), "needs Config.Pool")
	both := cfg
	both.Grid[0] = 2
	require.NoError(t, host.Prepare(both))
	before := free()
	require.NoError(t, run(2))
	for range 20 {
		require.NoError(t, run(1))
		require.NoError(t, run(2))
	}
	require.Equal(t, before, free())
	cfg.Blocks = 5
	require.NoError(t, run(5))
	bad := config(t, c, "tasks", "flood")
	bad.Pool = pool
	out, _ := words(t, c, 1)
	_, err := host.Run(minute(t), bad, out, uint32(100))
	require.ErrorIs(t, err, host.ErrSlots)
	require.NoError(t, c.MemFree(out))
	results := make(chan error)
	for range 3 {
		go func() { results <- run(5) }()
	}
	for range 3 {
		require.NoError(t, <-results)
	}
	require.NoError(t, pool.Close())
	require.NoError(t, run(2), "a closed pool keeps nothing")
	other := config(t, newContext(t, 1), "tasks", "tree")
	other.Pool = pool
	_, err = host.Run(minute(t), other, out, uint32(1))
	require.ErrorContains(t, err, "another context")
}
