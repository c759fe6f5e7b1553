package gputest

import (
	"bytes"
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var preemptTests = []test{
	{"support", func(r *rig) {
		// A device that cannot stop a context says so, and the context lives.
		c := r.client()
		s, ok := c.Context.(gpu.Preempter)
		if !ok {
			return
		}
		if err := s.Preempt(context.Background()); err != nil {
			require.ErrorIs(r, err, gpu.ErrUnsupported)
			require.ErrorIs(r, s.Resume(), gpu.ErrUnsupported)
		} else {
			require.NoError(r, s.Resume())
		}
		c.alive()
	}},
	{"preempt and resume", preemptAndResume},
	{"preempt a kernel", preemptKernel},
	{"close a preempted context", closePreempted},
	{"calls of a preempted context", callsWhilePreempted},
}

// preempter is the context of a client, which can be stopped.
func (c *client) preempter() gpu.Preempter {
	c.Helper()
	s, ok := c.Context.(gpu.Preempter)
	if !ok || errors.Is(s.Resume(), gpu.ErrUnsupported) {
		c.Skip("the device cannot stop a context")
	}
	return s
}

// preemptAndResume stops a context at some moments of its work.
func preemptAndResume(r *rig) {
	c, other := r.client(), r.client()
	s := c.preempter()
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
	s := c.preempter()
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
}

// snapshotPreempted takes a snapshot of a kernel that was preempted, and leaves it where it is.
func snapshotPreempted(r *rig) {
	c := r.client()
	s := c.snapshotter()
	gate, out := c.system(4), c.system(8)
	batch := c.running(c.ch, "await", gate.va, out.va)
	require.NoError(r, s.Preempt(context.Background()))
	storeWord(gate.host, 0, 7)
	_, err := s.Snapshot(context.Background(), &bytes.Buffer{})
	require.NoError(r, err)
	require.Empty(r, batch)
	require.NoError(r, s.Resume())
	require.NoError(r, (<-batch).Err)
}

// closePreempted ends a context, which takes its preempted kernel along.
func closePreempted(r *rig) {
	c, other := r.client(), r.client()
	s := c.preempter()
	gate, out := c.system(4), c.system(8)
	batch := c.running(c.ch, "await", gate.va, out.va)
	require.NoError(r, s.Preempt(context.Background()))
	queued := c.submit(c.ch, set(out.va, 1))
	require.NoError(r, c.Close())
	require.ErrorIs(r, (<-batch).Err, gpu.ErrClosed)
	require.ErrorIs(r, (<-queued).Err, gpu.ErrClosed)
	require.ErrorIs(r, s.Resume(), gpu.ErrClosed)
	other.alive()
}

// callsWhilePreempted changes memory and modules of a context that is stopped: that works, at the
// latest when the context goes on.
func callsWhilePreempted(r *rig) {
	c := r.client()
	s := c.preempter()
	gate, out := c.system(4), c.system(8)
	batch := c.running(c.ch, "await", gate.va, out.va)
	require.NoError(r, s.Preempt(context.Background()))
	called := make(chan error, 1)
	go func() {
		m, err := c.NewVRAM(c.dev.Properties().VRAM.Page)
		if err == nil {
			err = m.Close()
		}
		called <- err
	}()
	storeWord(gate.host, 0, 7)
	require.NoError(r, s.Resume())
	require.NoError(r, (<-batch).Err)
	require.NoError(r, <-called)
	late, err := c.NewChannel()
	require.NoError(r, err)
	require.NoError(r, (<-c.submit(late, set(out.va, 5))).Err)
	require.Equal(r, uint32(5), word(out, 0))
}
