package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
	"pvdrm/gpu/softgpu"
)

// config is of a kernel in testdata, of one logical block.
func config(t testing.TB, c *cuda.Context, module, kernel string) host.Config {
	return host.Config{Context: c, Module: load(t, c, module), Kernel: kernel, Grid: [3]uint32{1}, Block: [3]uint32{1}}
}

// Loops that leave after every k-th callback, for each k, give the same bytes, whatever is pending.
func TestSuspendAtEveryCallback(t *testing.T) {
	for name, kind := range kinds {
		for _, threads := range []uint32{1, 40} {
			c := newContext(t, 2)
			const blocks, depth = 3, 7
			cfg := config(t, c, "tasks"+kind, "tree")
			cfg.Grid[0], cfg.Block[0] = blocks, threads
			run := func(every uint32) ([]uint32, host.Stats) {
				out, read := words(t, c, blocks*int(threads))
				cfg.Every = every
				stats, err := host.Run(minute(t), cfg, out, uint32(depth))
				require.NoError(t, err)
				defer func() { require.NoError(t, c.MemFree(out)) }()
				return read(), stats
			}
			want, all := run(0)
			require.Equal(t, 1, all.Launches)
			require.Greater(t, all.Callbacks, uint64(50))
			for every := uint32(1); uint64(every) <= all.Callbacks; every++ {
				got, stats := run(every)
				require.Equal(t, want, got, "%s, %d threads, every %d callbacks", name, threads, every)
				require.Equal(t, all.Callbacks, stats.Callbacks)
				if every == 1 {
					require.Greater(t, stats.Launches, 20)
				}
			}
		}
	}
}

// A look at the signal does not begin the count of Every again: on a slow device loops looked before they
// had run so many callbacks, and so never left.
func TestSuspendBetweenLooks(t *testing.T) {
	const steps, every = 100, 7
	for name, kind := range kinds {
		c := newContext(t, 1)
		cfg := config(t, c, "throttle"+kind, "throttle")
		cfg.Slice, cfg.Every = 1, every // each callback looks
		out, read := words(t, c, 1)
		stats, err := host.Run(minute(t), cfg, out, uint32(steps))
		require.NoError(t, err)
		require.Equal(t, []uint32{steps}, read(), name)
		require.Equal(t, uint64(steps), stats.Callbacks, name)
		require.GreaterOrEqual(t, stats.Looks, uint64(steps), name)
		require.Equal(t, steps/every+1, stats.Launches, name)
	}
}

// A kernel that is asked to leave goes on where it was.
func TestRelaunch(t *testing.T) {
	for name, kind := range kinds {
		for _, kernel := range []string{"throttle", "necessary"} {
			t.Run(kernel+" "+name, func(t *testing.T) {
				c := newContext(t, 1)
				cfg := config(t, c, "throttle"+kind, kernel)
				cfg.Slice, cfg.Relaunch = 100*time.Microsecond, 5*time.Millisecond
				out, read := words(t, c, 1)
				stats, err := host.Run(minute(t), cfg, out, uint32(200_000))
				require.NoError(t, err)
				require.Equal(t, []uint32{200_000}, read())
				require.Greater(t, stats.Launches, 3)
				require.Greater(t, stats.Looks, uint64(stats.Launches))
			})
		}
	}
}

// 64 callbacks can be pending in device memory; two of a block in shared memory come on top.
func TestTooManyCallbacks(t *testing.T) {
	for name, kind := range kinds {
		c := newContext(t, 1)
		most := uint32(64)
		if name == "shared" {
			most++ // the next one
		}
		cfg := config(t, c, "tasks"+kind, "flood")
		out, read := words(t, c, 1)
		_, err := host.Run(minute(t), cfg, out, most)
		require.NoError(t, err)
		require.Equal(t, []uint32{most}, read())
		_, err = host.Run(minute(t), cfg, out, most+1)
		require.ErrorIs(t, err, host.ErrSlots)
		require.ErrorContains(t, err, "logical block 0")
	}
}

func TestCallsAreCoalesced(t *testing.T) {
	for _, kind := range kinds {
		c := newContext(t, 1)
		cfg := config(t, c, "tasks"+kind, "apart")
		_, err := host.Run(minute(t), cfg)
		require.NoError(t, err, "one thread is the first and the last")
		cfg.Block[0] = 64
		_, err = host.Run(minute(t), cfg)
		require.ErrorIs(t, err, host.ErrCoalesced)
	}
}

func TestLargestCallback(t *testing.T) {
	for _, kind := range kinds {
		c := newContext(t, 1)
		out, read := words(t, c, 1)
		cfg := config(t, c, "tasks"+kind, "large")
		cfg.Every = 1
		_, err := host.Run(minute(t), cfg, out)
		require.NoError(t, err)
		require.Equal(t, []uint32{125 * 126 / 2}, read())
	}
}

// Run ends when its context does, after the kernel has left.
func TestCancel(t *testing.T) {
	c := newContext(t, 1)
	cfg := config(t, c, "throttle", "throttle")
	out, _ := words(t, c, 1)
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer stop()
	stats, err := host.Run(ctx, cfg, out, uint32(1_000_000_000))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, stats.Launches)
	require.NoError(t, c.Synchronize(), "the context is whole")
}

func TestConfigs(t *testing.T) {
	c := newContext(t, 2)
	for name, tc := range map[string]struct {
		change func(*host.Config)
		want   string
	}{
		"no module":     {func(c *host.Config) { c.Module = nil }, "needs Context, Module and Kernel"},
		"no such":       {func(c *host.Config) { c.Kernel = "none" }, "none"},
		"no grid":       {func(c *host.Config) { c.Grid[0] = 0 }, "logical blocks"},
		"a huge grid":   {func(c *host.Config) { c.Grid = [3]uint32{1 << 31, 1 << 31, 4} }, "logical blocks"},
		"no block":      {func(c *host.Config) { c.Block[0] = 0 }, "Block is empty"},
		"blocks":        {func(c *host.Config) { c.Blocks = -1 }, "physical blocks"},
		"time":          {func(c *host.Config) { c.Slice = -1 }, "below 0"},
		"path":          {func(c *host.Config) { c.PathMax = 4097 }, "PathMax"},
		"few arguments": {func(*host.Config) {}, "cuLaunchKernel"},
	} {
		cfg := config(t, c, "throttle", "throttle")
		tc.change(&cfg)
		_, err := host.Run(minute(t), cfg)
		require.ErrorContains(t, err, tc.want, name)
	}
}

// A program runs longer than the device lets a launch run, which asks it to leave in time. One that
// never looks at the signal is ended at the limit.
func TestLaunchLimit(t *testing.T) {
	c := newContextOf(t, softgpu.Config{VRAMBytes: 64 << 20, SMs: 1, LaunchLimit: 2 * time.Second})
	cfg := config(t, c, "throttle", "throttle")
	out, read := words(t, c, 1)
	steps, all := uint32(800_000), uint32(0)
	for { // until it takes longer, however fast the machine is
		stats, err := host.Run(minute(t), cfg, out, steps)
		require.NoError(t, err)
		all += steps
		require.Equal(t, []uint32{all}, read())
		if stats.Launches > 1 {
			break
		}
		require.Less(t, steps, uint32(1<<28))
		steps *= 2
	}

	cfg = config(t, c, "tasks", "deaf")
	_, err := host.Run(minute(t), cfg, out)
	require.NoError(t, err, "the word says that it is to stop")
	stop, _ := words(t, c, 1)
	_, err = host.Run(minute(t), cfg, stop)
	require.ErrorIs(t, err, cuda.ErrLaunchTimeout)
}
