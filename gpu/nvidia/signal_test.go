package nvidia_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// signaled starts the kernel that counts, which ends when its signal is set. With deaf its signal is another word.
func (c *fakeClient) signaled(deaf bool) (mem []byte, done chan gpu.Result) {
	mem, at := c.granted(4096)
	return mem, c.tells(mem, at, deaf)
}

func (c *fakeClient) tells(mem []byte, at uint64, deaf bool) (done chan gpu.Result) {
	l := c.launch("count", binary.LittleEndian.AppendUint64(nil, at)...)
	l.Signal = at + 64
	if deaf {
		l.Signal = at + 128
	}
	done = make(chan gpu.Result, 1)
	require.NoError(c, c.ch.Submit([]gpu.Command{l}, func(r gpu.Result) { done <- r }))
	goesOn(c.T, mem)
	return done
}

// A kernel whose turn is over is told, leaves at once, and is left alone then.
func TestSignalWhenRevoked(t *testing.T) {
	t.Cleanup(nvidia.SetSignalGrace(time.Hour)) // a busy processor may take long to run it
	bothWays(t, func(t *testing.T, polls bool) {
		g := &turnGate{}
		c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: -1}, guardedFake)
		c.polls = polls
		mem, done := c.signaled(false)
		require.Zero(t, hostmem.LoadUint32(mem, 64))
		g.revoked[gpu.EngineCompute].Store(true)
		g.preempts[gpu.EngineCompute].Store(true)
		require.NoError(t, receive(c, done).Err)
		require.Equal(t, uint32(1), hostmem.LoadUint32(mem, 64))
		require.Zero(t, c.dev.Stats().Preemptions)
		hostmem.SwapUint32(mem, 64, 0)
		time.Sleep(2 * gpu.SignalPeriod)
		require.Zero(t, hostmem.LoadUint32(mem, 64), "the launch has ended")
	})
}

// A kernel that does not look is preempted, and told again when it goes on.
func TestSignalIgnored(t *testing.T) {
	g := &turnGate{admitted: make(chan struct{})}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: -1}, guardedFake)
	mem, done := c.signaled(true)
	g.preempts[gpu.EngineCompute].Store(true)
	require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == 2 }, 5*time.Minute, time.Millisecond)
	require.Equal(t, uint32(1), hostmem.LoadUint32(mem, 128))
	standsStill(t, mem)
	g.preempts[gpu.EngineCompute].Store(false)
	g.admitted <- struct{}{}
	goesOn(t, mem)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
	require.Equal(t, uint64(1), c.dev.Stats().Preemptions)
}

// The launch limit counts for each launch, so that a program which is alone and obeys runs on. One that does
// not is told, too, and ends at the limit.
func TestSignalBeforeTheLimit(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{LaunchLimit: 2 * time.Second}, guardedFake)
	mem, at := c.granted(4096)
	for range 3 {
		require.NoError(t, receive(c, c.tells(mem, at, false)).Err)
		require.Equal(t, uint32(1), hostmem.LoadUint32(mem, 64))
		hostmem.SwapUint32(mem, 64, 0)
	}
	var lost *gpu.LostError
	require.ErrorAs(t, receive(c, c.tells(mem, at, true)).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Equal(t, uint32(1), hostmem.LoadUint32(mem, 128))
}
