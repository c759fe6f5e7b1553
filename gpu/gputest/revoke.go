package gputest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var revokeTests = []test{
	{"idle", revokeIdle},
	{"a kernel that may begin again", revokeKernel},
	{"a kernel that may not", revokeVolatile},
	{"a kernel that writes what it reads", revokeTally},
	{"a preempted kernel", revokePreempted},
	{"close", closeRevoked},
	{"memory freed", revokeFreed},
	{"module closed", revokeUnloaded},
}

// revoker is the context of a client, which can be revoked.
func (c *client) revoker() gpu.Revoker {
	c.Helper()
	s, ok := c.Context.(gpu.Revoker)
	if !ok {
		c.Skip("the device cannot revoke a context")
	}
	if err := s.Revoke(context.Background()); errors.Is(err, gpu.ErrUnsupported) {
		c.Skip(err)
	}
	require.NoError(c, s.Resume())
	c.mod, _ = c.LoadModule(context.Background(), "lasting.ptx", withoutVariables(), nil)
	require.NotNil(c, c.mod)
	return s
}

// withoutVariables returns the suite's kernels without the variables and the one that uses them: a device
// may be unable to keep variables.
func withoutVariables() []byte {
	const user = ".visible .entry variables("
	before, rest, _ := bytes.Cut(kernels, []byte(user))
	_, after, _ := bytes.Cut(rest, []byte("\n}\n"))
	var text []byte
	for line := range bytes.Lines(append(slices.Clone(before), after...)) {
		if !bytes.HasPrefix(line, []byte(".visible .global ")) && !bytes.HasPrefix(line, []byte(".visible .const ")) {
			text = append(text, line...)
		}
	}
	return text
}

// revokeIdle revokes a context that runs nothing, and is stopped then as one that was preempted.
func revokeIdle(r *rig) {
	c, other := r.client(), r.client()
	s := c.revoker()
	b := c.system(4)
	v := c.device(c.props.VRAM.Page)
	c.do(set(v.va, 7))
	require.NoError(r, s.Revoke(context.Background()))
	require.NoError(r, s.Revoke(context.Background()), "twice")
	queued := c.submit(c.ch, set(b.va, 1))
	other.alive()
	require.Empty(r, queued)
	require.Zero(r, word(b, 0))
	require.NoError(r, s.Resume())
	require.NoError(r, (<-queued).Err)
	require.Equal(r, []byte{7, 0, 0, 0}, c.read(v.va, 4), "memory stays")
	c.alive()
	late, err := c.NewChannel()
	require.NoError(r, err)
	require.NoError(r, (<-c.submit(late, set(b.va, 5))).Err)
}

// again is a kernel that waits for a word, and words of its own.
type again struct {
	ready, gate, out buffer
	batch            <-chan gpu.Result
}

// toils starts a kernel, with commands around it, on memory of VRAM, and waits until it runs.
func (c *client) toils(name string, out uint64, around ...gpu.Command) (a again) {
	c.Helper()
	a.ready, a.gate, a.out = c.system(4), c.system(4), c.system(8)
	if out == 0 {
		out = a.out.va
	}
	cmds := append(append([]gpu.Command{}, around...), c.kernel(name, a.ready.va, a.gate.va, out))
	a.batch = c.submit(c.ch, append(cmds, around...)...)
	c.waitWord(a.ready, 0)
	return a
}

// begins waits until the kernel has begun since the call of clear.
func (a *again) clear()           { storeWord(a.ready.host, 0, 0) }
func (c *client) begins(a *again) { c.waitWord(a.ready, 0) }

// revokeKernel revokes a kernel again and again. Commands that have ended stay so.
func revokeKernel(r *rig) {
	c, other := r.client(), r.client()
	s := c.revoker()
	count := c.device(c.props.VRAM.Page)
	before := r.dev.Stats().Replays
	a := c.toils("toil", 0, c.kernel("increment", count.va))
	for range 3 {
		require.NoError(r, s.Revoke(context.Background()))
		a.clear()
		other.alive()
		require.Empty(r, a.batch)
		require.Zero(r, word(a.ready, 0), "it is off")
		require.NoError(r, s.Resume())
		c.begins(&a)
	}
	storeWord(a.gate.host, 0, 9)
	require.NoError(r, (<-a.batch).Err)
	require.Equal(r, uint32(9), word(a.out, 0))
	require.Equal(r, []byte{2, 0, 0, 0}, c.read(count.va, 4), "what had ended did not run again")
	require.GreaterOrEqual(r, r.dev.Stats().Replays, before+3)
}

// revokeVolatile tries to revoke a kernel that talks to the host, which goes on.
func revokeVolatile(r *rig) {
	c, other := r.client(), r.client()
	s := c.revoker()
	a := c.toils("await", 0)
	a.clear()
	err := s.Revoke(context.Background())
	require.ErrorIs(r, err, gpu.ErrUnsupported)
	require.ErrorContains(r, err, "await")
	other.alive()
	storeWord(a.gate.host, 0, 4)
	require.NoError(r, (<-a.batch).Err)
	require.Equal(r, uint32(4), word(a.out, 0))
	require.Zero(r, word(a.ready, 0), "it did not begin again")
}

// revokeTally revokes a kernel that changes what it reads. A device that does not save that refuses.
func revokeTally(r *rig) {
	c := r.client()
	s := c.revoker()
	count := c.device(c.props.VRAM.Page)
	c.do(set(count.va, 40))
	a := c.toils("tally", count.va)
	for range 2 {
		err := s.Revoke(context.Background())
		if err != nil {
			require.ErrorIs(r, err, gpu.ErrUnsupported)
			break
		}
		a.clear()
		require.NoError(r, s.Resume())
		c.begins(&a)
	}
	storeWord(a.gate.host, 0, 1)
	require.NoError(r, (<-a.batch).Err)
	require.Equal(r, []byte{41, 0, 0, 0}, c.read(count.va, 4))
	granted := c.system(4) // the host sees each change of it
	a = c.toils("tally", granted.va)
	require.ErrorIs(r, s.Revoke(context.Background()), gpu.ErrUnsupported)
	storeWord(a.gate.host, 0, 1)
	require.NoError(r, (<-a.batch).Err)
	require.Equal(r, uint32(1), word(granted, 0))
}

// revokePreempted revokes a kernel that is stopped.
func revokePreempted(r *rig) {
	c := r.client()
	s := c.revoker()
	a := c.toils("toil", 0)
	require.NoError(r, s.Preempt(context.Background()))
	require.NoError(r, s.Revoke(context.Background()))
	a.clear()
	require.NoError(r, s.Resume())
	c.begins(&a)
	storeWord(a.gate.host, 0, 2)
	require.NoError(r, (<-a.batch).Err)
}

// closeRevoked ends a context that was revoked.
func closeRevoked(r *rig) {
	c, other := r.client(), r.client()
	s := c.revoker()
	a := c.toils("toil", 0)
	require.NoError(r, s.Revoke(context.Background()))
	queued := c.submit(c.ch, set(a.out.va, 1))
	require.NoError(r, c.Close())
	require.ErrorIs(r, (<-a.batch).Err, gpu.ErrClosed)
	require.ErrorIs(r, (<-queued).Err, gpu.ErrClosed)
	require.Error(r, s.Revoke(context.Background()))
	other.alive()
}

// revokeFreed frees what a kernel writes before it begins again: that is a fault of its program.
func revokeFreed(r *rig) {
	c, other := r.client(), r.client()
	s := c.revoker()
	out := c.device(c.props.VRAM.Page)
	a := c.toils("toil", out.va)
	require.NoError(r, s.Revoke(context.Background()))
	freed := make(chan error, 1)
	go func() { freed <- out.Close() }() // it may take until the context goes on
	storeWord(a.gate.host, 0, 3)
	require.NoError(r, s.Resume())
	if err := (<-a.batch).Err; err != nil {
		r.lost(err, gpu.LostAddress)
	}
	require.NoError(r, <-freed)
	other.alive()
}

// revokeUnloaded closes the module of a kernel before it begins again.
func revokeUnloaded(r *rig) {
	c := r.client()
	s := c.revoker()
	a := c.toils("toil", 0)
	require.NoError(r, s.Revoke(context.Background()))
	closed := make(chan error, 1)
	go func() { closed <- c.mod.Close() }() // likewise
	storeWord(a.gate.host, 0, 6)
	require.NoError(r, s.Resume())
	if err := (<-a.batch).Err; err != nil {
		require.ErrorIs(r, err, gpu.ErrInvalid)
	} else {
		require.Equal(r, uint32(6), word(a.out, 0))
	}
	require.NoError(r, <-closed)
	require.NoError(r, c.Err())
}
