package jit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A pool runs as many jobs at a time as it may, refuses those beyond its queue, and settles when all
// have ended.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool{most: 2}
		p.settle() // nothing to wait for
		gate := make(chan struct{})
		var running, most, ended atomic.Int32
		job := func() {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-gate
			running.Add(-1)
			ended.Add(1)
		}
		require.True(t, p.add(job))
		require.True(t, p.add(job))
		synctest.Wait()
		for range maxQueued {
			require.True(t, p.add(job))
		}
		require.False(t, p.add(job))
		synctest.Wait()
		require.Equal(t, int32(2), running.Load())
		close(gate)
		p.settle()
		require.Equal(t, int32(2), most.Load())
		require.Equal(t, int32(2+maxQueued), ended.Load())
		require.True(t, p.add(job))
		p.settle()
		require.Equal(t, int32(3+maxQueued), ended.Load())
	})
}
