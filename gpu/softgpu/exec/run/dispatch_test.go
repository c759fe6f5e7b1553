package run

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Workers that run short clusters take more of them, those that meet a long one take single ones again, and
// near the end all take few.
func TestShareOfClusters(t *testing.T) {
	many := uint64(1)
	for range 10 {
		many = next(many, shortTurn-1)
	}
	require.Equal(t, uint64(maxTaken), many)
	require.Equal(t, many, next(many, shortTurn))
	require.Equal(t, uint64(1), next(many, longTurn+1))
	require.Equal(t, uint64(maxTaken), fair(maxTaken, 1<<20, 0, 64))
	require.Equal(t, uint64(2), fair(maxTaken, 2*endShare*4, 0, 4))
	require.Equal(t, uint64(1), fair(maxTaken, 4, 0, 4), "no more clusters than workers: all run at once")
	require.Equal(t, uint64(1), fair(maxTaken, 10, 12, 4))
}

// Each cluster is taken once, whatever the workers take at a time, and what a worker has not begun is left.
func TestTakeClusters(t *testing.T) {
	const workers, clusters, size = 8, 5000, 2
	r, control := &run{blocks: clusters * size, size: size, workers: workers}, new(Control)
	var all [workers][]uint64
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := &worker{run: r, control: control}
			for k := 0; ; k++ {
				n, ok := w.take()
				if !ok {
					return
				}
				all[i] = append(all[i], n)
				if k%100 == 99 { // as if it were preempted, and another went on
					w.leave()
				}
				w.part.since = time.Now() // no time has passed
			}
		})
	}
	wg.Wait()
	var got []uint64
	for _, one := range all {
		require.True(t, slices.IsSorted(one))
		got = append(got, one...)
	}
	for _, b := range r.kept {
		if b.number%size == 0 {
			got = append(got, b.number/size)
		}
	}
	slices.Sort(got)
	require.Equal(t, clusters, len(got))
	for i, n := range got {
		require.Equal(t, uint64(i), n)
	}
}

// With Divide, clusters are taken one by one: those that begin a part run at the same time.
func TestTakeOneByOne(t *testing.T) {
	r := &run{blocks: 1000, size: 1, workers: 2}
	w := &worker{run: r, control: &Control{Divide: true}}
	for i := range uint64(1000) {
		n, ok := w.take()
		require.True(t, ok)
		require.Equal(t, i, n)
		require.Equal(t, i+1, r.next.Load())
	}
	_, ok := w.take()
	require.False(t, ok)
}
