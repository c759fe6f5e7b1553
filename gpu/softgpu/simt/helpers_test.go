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
					work := func() {
						done.Add(1)
						one.Done()
					}
					h.do(&work)
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
		work := func() { close(done) }
		h.do(&work)
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
	work := func() { ran = true }
	require.Same(t, w, h.do(&work))
	require.Empty(t, h.idle)
	require.False(t, ran)
	require.False(t, h.remove(w))
	h.Linger = func() bool { return false }
	h.serve(w)
	require.True(t, ran)
	require.Empty(t, h.idle)
}

// Work is either done or taken back, and whoever was to do it lingers on.
func TestWorkIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Helpers
		var done, withdrawn atomic.Int64
		var all sync.WaitGroup
		const callers, rounds = 4, 500
		for range callers {
			all.Go(func() {
				for range rounds {
					one := make(chan struct{})
					work := func() {
						done.Add(1)
						close(one)
					}
					w := h.do(&work)
					if h.withdraw(w, &work) {
						withdrawn.Add(1)
						continue
					}
					<-one
					require.False(t, h.withdraw(w, &work))
				}
			})
		}
		all.Wait()
		require.EqualValues(t, callers*rounds, done.Load()+withdrawn.Load())
		require.NotZero(t, withdrawn.Load())
		synctest.Wait()
		require.Empty(t, h.idle)
	})
	var none *Helpers
	done := make(chan struct{})
	work := func() { close(done) }
	require.False(t, none.withdraw(none.do(&work), &work))
	<-done
}
