package parallel

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// All parts are done when Share returns, by members with numbers of their own, and
// none works on after that.
func TestShare(t *testing.T) {
	for _, c := range []*Pool{nil, {}} {
		for _, n := range []int{0, 1, 2, 7} {
			for range 100 {
				const parts = 50
				var next, inside atomic.Int64
				var done [parts]atomic.Bool
				var members [7]atomic.Int64
				c.Share(n, func(member int) {
					inside.Add(1)
					members[member].Add(1)
					for i := next.Add(1) - 1; i < parts; i = next.Add(1) - 1 {
						done[i].Store(true)
					}
					inside.Add(-1)
				})
				require.Zero(t, inside.Load())
				for i := range done {
					require.True(t, done[i].Load())
				}
				require.EqualValues(t, 1, members[0].Load())
				for i := range members {
					require.LessOrEqual(t, members[i].Load(), int64(1))
					require.True(t, i < max(n, 1) || members[i].Load() == 0)
				}
			}
		}
	}
}

// All work is done exactly once, whether a helper lingers at the moment or not,
// and no helper stays.
func TestHelpersDoAllWorkAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		var c Pool
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
					c.do(&work)
					one.Wait()
				}
			})
		}
		all.Wait()
		require.EqualValues(t, callers*rounds, done.Load())
		synctest.Wait()
		require.Empty(t, c.idle)
	})
}

// Helpers that are not to linger end when their work is done.
func TestHelpersThatDoNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := Pool{Linger: func() bool { asked++; return asked < 3 }}
		done := make(chan struct{})
		work := func() { close(done) }
		c.do(&work)
		<-done
		synctest.Wait()
		require.Equal(t, 3, asked)
		require.Empty(t, c.idle)
	})
}

// Work goes to a helper that lingers, and it takes it even if it was about to end.
func TestHelperThatLingersIsUsed(t *testing.T) {
	var c Pool
	w := new(helper)
	c.idle = []*helper{w}
	ran := false
	work := func() { ran = true }
	require.Same(t, w, c.do(&work))
	require.Empty(t, c.idle)
	require.False(t, ran)
	require.False(t, c.remove(w))
	c.Linger = func() bool { return false }
	c.serve(w)
	require.True(t, ran)
	require.Empty(t, c.idle)
}

// Work is either done or taken back, and the member that was to do it lingers on.
func TestWorkIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Pool
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
					w := c.do(&work)
					if c.withdraw(w, &work) {
						withdrawn.Add(1)
						continue
					}
					<-one
					require.False(t, c.withdraw(w, &work))
				}
			})
		}
		all.Wait()
		require.EqualValues(t, callers*rounds, done.Load()+withdrawn.Load())
		require.NotZero(t, withdrawn.Load())
		synctest.Wait()
		require.Empty(t, c.idle)
	})
	var none *Pool
	done := make(chan struct{})
	work := func() { close(done) }
	require.False(t, none.withdraw(none.do(&work), &work))
	<-done
}
