package gputest

import (
	"bytes"
	"context"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// preemptAndResume stops a context at some moments of its work.
func preemptAndResume(r *rig) {
	c, other := r.client(), r.client()
	s := c.snapshotter()
	require.NoError(r, s.Resume(), "it runs")
	b := c.system(8)
	require.NoError(r, s.Preempt(context.Background()))
	require.NoError(r, s.Preempt(context.Background()), "twice")
	queued := c.submit(c.ch, set(b.va, 1))
	late, err := c.NewChannel()
	require.NoError(r, err)
	second := c.submit(late, set(b.va+4, 2))
	other.alive()
	require.Empty(r, queued)
	require.Empty(r, second)
	require.Zero(r, word(b, 0))
	far := c.device(4096) // other calls work
	require.NoError(r, far.Close())
	require.NoError(r, s.Resume())
	require.NoError(r, (<-queued).Err)
	require.NoError(r, (<-second).Err)
	require.Equal(r, []uint32{1, 2}, []uint32{word(b, 0), word(b, 4)})
	big := c.device(16 << 20)
	for range 20 {
		var results []<-chan gpu.Result
		for range 5 {
			results = append(results, c.submit(c.ch,
				&gpu.Fill{Dst: big.va, Pattern: 5, Size: 4, Width: 16 << 20, Height: 1}, c.kernel("increment", b.va)))
		}
		require.NoError(r, s.Preempt(context.Background()))
		ended := word(b, 0)
		require.Equal(r, ended, word(b, 0))
		require.NoError(r, s.Resume())
		for _, res := range results {
			require.NoError(r, (<-res).Err)
		}
	}
	require.Equal(r, uint32(101), word(b, 0))
}

// preemptKernel stops a kernel that would run for as long as it likes, and makes it go on.
func preemptKernel(r *rig) {
	c, other := r.client(), r.client()
	s := c.snapshotter()
	gate, out := c.system(4), c.system(8)
	batch := c.running(c.ch, "await", gate.va, out.va)
	for range 20 {
		require.NoError(r, s.Preempt(context.Background()))
		other.alive()
		require.Empty(r, batch)
		require.NoError(r, s.Resume())
	}
	require.NoError(r, s.Preempt(context.Background()))
	storeWord(gate.host, 0, 7)
	other.alive()
	require.Zero(r, word(out, 0), "it is stopped")
	require.NoError(r, s.Resume())
	require.NoError(r, (<-batch).Err)
	require.NotZero(r, word(out, 0))

	// A snapshot leaves a kernel that was preempted where it is.
	storeWord(gate.host, 0, 0)
	storeWord(out.host, 0, 0)
	batch = c.running(c.ch, "await", gate.va, out.va)
	require.NoError(r, s.Preempt(context.Background()))
	storeWord(gate.host, 0, 7)
	_, err := s.Snapshot(context.Background(), &bytes.Buffer{})
	require.NoError(r, err)
	require.Empty(r, batch)
	require.NoError(r, s.Resume())
	require.NoError(r, (<-batch).Err)

	// A context that ends takes its preempted kernel along.
	storeWord(gate.host, 0, 0)
	batch = c.running(c.ch, "await", gate.va, out.va)
	require.NoError(r, s.Preempt(context.Background()))
	require.NoError(r, c.Close())
	require.ErrorIs(r, (<-batch).Err, gpu.ErrClosed)
	other.alive()
}
