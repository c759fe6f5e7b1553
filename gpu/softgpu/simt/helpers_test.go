package simt

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// All work is done exactly once, whether a helper lingers at the moment or not,
// and no helper stays.
func TestHelpersDoAllWorkAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		var h Helpers
		var done atomic.Int64
		var all sync.WaitGroup
		const callers, rounds = 4, 500
		for range callers {
			all.Go(func() {
				for range rounds {
					var one sync.WaitGroup
					one.Add(1)
					h.do(func() {
						done.Add(1)
						one.Done()
					})
					one.Wait()
				}
			})
		}
		all.Wait()
		require.EqualValues(t, callers*rounds, done.Load())
		synctest.Wait()
		require.Empty(t, h.idle)
	})
}

// Helpers that are not to linger end when their work is done.
func TestHelpersThatDoNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h := Helpers{Linger: func() bool { asked++; return asked < 3 }}
		done := make(chan struct{})
		h.do(func() { close(done) })
		<-done
		synctest.Wait()
		require.Equal(t, 3, asked)
		require.Empty(t, h.idle)
	})
}

// Work goes to a helper that lingers, and it takes it even if it was about to end.
func TestHelperThatLingersIsUsed(t *testing.T) {
	var h Helpers
	w := new(helper)
	h.idle = []*helper{w}
	ran := false
	h.do(func() { ran = true })
	require.Empty(t, h.idle)
	require.False(t, ran)
	require.False(t, h.remove(w))
	(*w.work.Load())()
	require.True(t, ran)
}
