package nvidia_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// revoked is a client with a kernel that counts in granted memory, and VRAM with a pattern.
type revoked struct {
	*fakeClient
	mem    []byte
	system uint64
	vram   uint64
	batch  <-chan gpu.Result
}

const pattern = "what was written before"

// newRevoked starts the kernel between two commands that leave their marks.
func newRevoked(t *testing.T, config nvidia.Config, kernel string) *revoked {
	config.Replays = true
	c := &revoked{fakeClient: newFakeClientOf(t, config, guardedFake)}
	c.mem, c.system = c.granted(4 * 4096)
	c.vram = c.fakeClient.vram()
	copy(c.mem[8192:], pattern)
	require.NoError(t, c.do(&gpu.Copy{Dst: c.vram + 4096, Src: c.system + 8192, Width: uint64(len(pattern)), Height: 1}).Err)
	c.start(kernel)
	return c
}

func (c *revoked) start(kernel string) {
	hostmem.SwapUint32(c.mem, 64, 0)
	results := make(chan gpu.Result, 1)
	require.NoError(c, c.ch.Submit([]gpu.Command{&gpu.Fill{Dst: c.vram, Pattern: 5, Size: 4, Width: 4, Height: 1}, c.launch(kernel, words(c.system)...),
		&gpu.Copy{Dst: c.system + 12288, Src: c.vram, Width: 4096 + uint64(len(pattern)), Height: 1}}[:2], func(gpu.Result) {}))
	require.NoError(c, c.ch.Submit([]gpu.Command{&gpu.Copy{Dst: c.system + 12288, Src: c.vram + 4096, Width: uint64(len(pattern)), Height: 1}},
		func(r gpu.Result) { results <- r }))
	c.batch = results
	c.counts()
}

// counts waits until the kernel has counted on.
func (c *revoked) counts() {
	c.Helper()
	before := hostmem.LoadUint32(c.mem, 0)
	require.Eventually(c, func() bool { return hostmem.LoadUint32(c.mem, 0) != before }, 5*time.Minute, time.Millisecond)
}

// end has the kernel end, and looks whether VRAM is as it was.
func (c *revoked) end() {
	c.Helper()
	hostmem.SwapUint32(c.mem, 64, 1)
	require.NoError(c, (<-c.batch).Err)
	require.Equal(c, pattern, string(c.mem[12288:][:len(pattern)]))
}

// revoke revokes the context.
func (c *revoked) revoke() error { return c.ctx.(gpu.Revoker).Revoke(context.Background()) }

// holders counts the pages that the keeper holds.
func holders(t *testing.T) (n int) { return holdersOf(t, keeperOf(t)) }

func holdersOf(t *testing.T, keeper int) (n int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", keeper))
	require.NoError(t, err)
	for _, f := range files {
		if target, _ := os.Readlink(f); strings.Contains(target, nvidia.FakeHolder) { // others come and go
			n++
		}
	}
	return n
}

// holds waits until the keeper holds so many pages.
func holds(t *testing.T, pages int) {
	t.Helper()
	require.Eventually(t, func() bool { return holders(t) == pages }, 5*time.Minute, time.Millisecond)
}

// A context that is revoked goes on in another worker, with its memory and its work.
func TestRevoke(t *testing.T) {
	for _, spares := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d spares", spares), func(t *testing.T) { revokeAndResume(t, spares) })
	}
}

func revokeAndResume(t *testing.T, spares int) {
	c := newRevoked(t, nvidia.Config{Spares: spares}, "count")
	for round := range 3 {
		require.NoError(t, c.revoke())
		require.Equal(t, uint64(round+1), c.dev.Stats().Replays)
		at := hostmem.LoadUint32(c.mem, 0)
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, at, hostmem.LoadUint32(c.mem, 0), "it is stopped")
		require.NoError(t, c.ctx.(gpu.Preempter).Resume())
		c.counts()
	}
	c.end()
	require.Zero(t, c.dev.Stats().Faults)
	c.start("count")
	require.NoError(t, unix.Kill(theirWorker(t, c), unix.SIGKILL))
	c.counts()
	c.end()
	require.Equal(t, uint64(4), c.dev.Stats().Replays, "a worker that dies is replaced likewise")
}

// theirWorker is the worker of the client's context: the one that the keeper's other workers are not,
// which wait.
func theirWorker(t *testing.T, c *revoked) int {
	t.Helper()
	var found []int
	require.Eventually(t, func() bool {
		found = nil
		for _, pid := range children(t, keeperOf(t), "cuda-worker") {
			maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)) // it may have ended
			for line := range strings.Lines(string(maps)) {           // the others have nothing there
				if strings.HasPrefix(line, fmt.Sprintf("%x-", c.system)) && strings.Contains(line, " rw-s ") {
					found = append(found, pid)
				}
			}
		}
		return len(found) == 1
	}, 5*time.Minute, time.Millisecond)
	return found[0]
}

// Where others wait, a kernel that may begin again is taken off the GPU, up to a number of times.
func TestOverstayingKernelIsRevoked(t *testing.T) {
	c := newRevoked(t, nvidia.Config{Spares: 1, Gate: wantedGate{}, RevokeAfter: 20 * time.Millisecond}, "count")
	require.Eventually(t, func() bool { return c.dev.Stats().Replays >= 3 }, 5*time.Minute, time.Millisecond)
	c.counts()
	c.end()
	require.LessOrEqual(t, c.dev.Stats().Replays, uint64(9), "three times for each of three batches, on a busy machine")
	require.Zero(t, c.dev.Stats().Faults)
}

// A kernel that may not begin again is left alone, and lost with its worker.
func TestKernelThatMayNotBeginAgain(t *testing.T) {
	c := newRevoked(t, nvidia.Config{Gate: wantedGate{}, RevokeAfter: time.Millisecond}, "talks")
	before := c.dev.Stats().Replays // commands before the kernel may have been
	err := c.revoke()
	require.ErrorIs(t, err, gpu.ErrUnsupported)
	require.ErrorContains(t, err, "kernel talks: the kernel cannot begin again")
	for range 20 {
		c.counts()
	}
	require.Equal(t, before, c.dev.Stats().Replays)
	c.end()
	require.NoError(t, c.revoke(), "nothing runs")
	require.NoError(t, c.ctx.(gpu.Preempter).Resume())
	c.start("talks")
	require.NoError(t, unix.Kill(theirWorker(t, c), unix.SIGKILL))
	r := <-c.batch
	var lost *gpu.LostError
	require.ErrorAs(t, r.Err, &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
	require.ErrorContains(t, lost, "kernel talks")
}

// A worker that dies while it takes over is replaced by the next one.
func TestWorkerDiesWhileItTakesOver(t *testing.T) {
	for _, step := range []string{"create", "map", "load", "stream"} {
		t.Run(step, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "dies")
			t.Setenv(nvidia.FakeDiesEnv, file)
			c := newRevoked(t, nvidia.Config{Spares: 1}, "count")
			for len(children(t, keeperOf(t), "cuda-worker")) != 2 { // a worker that starts gets there, too
				time.Sleep(time.Millisecond)
			}
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, os.WriteFile(file, []byte(step), 0o600))
			require.NoError(t, c.revoke())
			require.NoError(t, c.ctx.(gpu.Preempter).Resume())
			require.NoFileExists(t, file)
			c.counts()
			c.end()
		})
	}
}

// Pages are let go of with their memory, with their context, and with the device.
func TestKeptPagesAreLetGo(t *testing.T) {
	c := newRevoked(t, nvidia.Config{Spares: 1}, "count")
	holds(t, 1)
	m, err := c.ctx.NewVRAM(3 * c.props.VRAM.Page)
	require.NoError(t, err)
	holds(t, 4)
	require.NoError(t, c.revoke())
	holds(t, 4)
	require.NoError(t, m.Close())
	holds(t, 1)
	other, err := c.dev.NewContext("another")
	require.NoError(t, err)
	_, err = other.NewVRAM(2 * c.props.VRAM.Page)
	require.NoError(t, err)
	holds(t, 3)
	require.NoError(t, c.ctx.Close())
	holds(t, 2)
	require.NoError(t, other.Close())
	holds(t, 0)
}

// Without Replays contexts cannot be revoked, and say why.
func TestRevokeIsUnsupported(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	err := c.ctx.(gpu.Revoker).Revoke(context.Background())
	require.ErrorIs(t, err, gpu.ErrUnsupported)
	require.ErrorContains(t, err, "VRAM ends with the worker")
	require.NoError(t, c.do(c.launch("idle")).Err)
	free := newFakeClientOf(t, nvidia.Config{Replays: true}, fakeWorker)
	require.ErrorIs(t, free.ctx.(gpu.Revoker).Revoke(context.Background()), gpu.ErrUnsupported)
	require.NoError(t, free.do(free.launch("idle")).Err)
}
