package gputest

import (
	"context"
	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var faultTests = []test{
	{"address", func(r *rig) {
		faults(r, gpu.LostAddress, func(c *client) *gpu.Launch { return c.kernel("store", uint64(0), uint32(1)) })
	}},
	{"address past the end", func(r *rig) {
		faults(r, gpu.LostAddress, func(c *client) *gpu.Launch {
			b := c.device(1)
			l := c.kernel("store", b.va+b.Size()-64, uint32(1))
			l.Block[0] = 32
			return l
		})
	}},
	{"alignment", func(r *rig) {
		faults(r, gpu.LostAlign, func(c *client) *gpu.Launch { return c.kernel("misaligned", c.device(1).va) })
	}},
	{"trap", func(r *rig) {
		faults(r, gpu.LostTrap, func(c *client) *gpu.Launch { return c.kernel("trapped") })
	}},
	{"of one block among endless ones", func(r *rig) {
		faults(r, gpu.LostTrap, func(c *client) *gpu.Launch {
			l := c.kernel("lopsided")
			l.Grid[0] = 64
			return l
		})
	}},
	{"stops what runs beside it", func(r *rig) {
		// A copy that faults ends the kernel of the same context.
		c, other := r.client(), r.client()
		second, err := c.NewChannel()
		require.NoError(r, err)
		first := c.running(c.ch, "hammer", c.device(1).va)
		lost := r.lost((<-c.submit(second, set(4, 1))).Err, gpu.LostAddress)
		require.Equal(r, error(lost), (<-first).Err)
		other.alive()
	}},
}

// faults checks that a launch ends its context, for good, and nothing else.
func faults(r *rig, cause gpu.LostCause, launch func(c *client) *gpu.Launch) {
	c, other := r.client(), r.client()
	b := c.system(4096)
	second, err := c.NewChannel()
	require.NoError(r, err)
	before := r.dev.Stats().Faults
	l := launch(c)

	results := c.submit(c.ch, set(b.va, 1), l, set(b.va, 2))
	queued := c.submit(c.ch, set(b.va, 3))
	res := <-results
	lost := r.lost(res.Err, cause)
	require.Equal(r, 1, res.Index)
	require.Equal(r, l.Func.Attributes().Name, lost.Kernel)
	require.Equal(r, uint32(1), word(b, 0), "what came before has happened, what follows not")
	require.Equal(r, before+1, r.dev.Stats().Faults)

	// The fault stays, for everything of the context.
	for _, res := range []gpu.Result{
		<-queued, <-c.submit(c.ch, set(b.va, 4)), <-c.submit(c.ch), <-c.submit(second, set(b.va, 5)),
	} {
		r.lost(res.Err, cause)
	}
	require.Equal(r, uint32(1), word(b, 0))
	r.lost(c.Err(), cause)
	_, err = c.NewVRAM(r.props.VRAM.Page)
	r.lost(err, cause)
	_, err = c.NewSystem([][]byte{r.pages(4096)})
	r.lost(err, cause)
	_, err = c.NewChannel()
	r.lost(err, cause)
	_, err = c.LoadModule(context.Background(), "kernels.ptx", kernels, nil)
	r.lost(err, cause)
	r.lost(c.Map(r.props.System.Base+1<<30, b.Memory, 0, 4096, readWrite), cause)

	other.alive()
	require.NoError(r, c.Unmap(b.va, 4096), "what there is can be taken away")
	require.NoError(r, b.Close())
	require.NoError(r, c.Close())
	r.lost(c.Err(), cause)
	other.alive()
	r.client().alive()
	require.Equal(r, before+1, r.dev.Stats().Faults)
}

var closeTests = []test{
	{"context", func(r *rig) {
		before := r.dev.Stats()
		c := r.client()
		b := c.device(1 << 20)
		l := c.kernel("store", b.va, uint32(1))
		mod := c.mod
		require.NoError(r, c.Close())
		require.NoError(r, c.Close(), "twice")
		after := r.dev.Stats()
		require.Equal(r, before.VRAMUsed, after.VRAMUsed)
		require.Equal(r, before.Channels, after.Channels)

		require.ErrorIs(r, c.Err(), gpu.ErrClosed)
		require.ErrorIs(r, c.ch.Submit([]gpu.Command{l}, func(gpu.Result) {}), gpu.ErrClosed)
		_, err := c.NewVRAM(r.props.VRAM.Page)
		require.ErrorIs(r, err, gpu.ErrClosed)
		_, err = c.NewSystem([][]byte{r.pages(4096)})
		require.ErrorIs(r, err, gpu.ErrClosed)
		_, err = c.NewChannel()
		require.ErrorIs(r, err, gpu.ErrClosed)
		_, err = c.LoadModule(context.Background(), "kernels.ptx", kernels, nil)
		require.ErrorIs(r, err, gpu.ErrClosed)
		require.ErrorIs(r, c.Map(c.vram, b.Memory, 0, r.props.VRAM.Page, readWrite), gpu.ErrClosed)
		require.ErrorIs(r, c.Unmap(b.va, r.props.VRAM.Page), gpu.ErrClosed)
		_, err = mod.Function("store")
		require.ErrorIs(r, err, gpu.ErrClosed)
		require.NoError(r, b.Close(), "parts may be closed after the whole")
		require.NoError(r, mod.Close())
		require.NoError(r, c.ch.Close())
		require.Zero(r, r.dev.Stats().Faults)
	}},
	{"context aborts what runs", func(r *rig) {
		for _, endless := range []func(c *client) <-chan gpu.Result{
			func(c *client) <-chan gpu.Result { return c.running(c.ch, "hammer", c.device(1).va) },
			func(c *client) <-chan gpu.Result { return c.submit(c.ch, c.kernel("spin")) },
			func(c *client) <-chan gpu.Result {
				l := c.kernel("spin")
				l.Grid[0], l.Block[0] = 1000, 1024
				return c.submit(c.ch, l)
			},
		} {
			c, other := r.client(), r.client()
			second, err := c.NewChannel()
			require.NoError(r, err)
			running := endless(c)
			behind := c.submit(second, c.kernel("spin"))
			queued := c.submit(c.ch, c.kernel("spin"))
			theirs := other.submit(other.ch, other.kernel("increment", other.device(4).va))
			require.NoError(r, c.Close())
			for _, q := range []<-chan gpu.Result{running, behind, queued} {
				require.ErrorIs(r, (<-q).Err, gpu.ErrClosed)
			}
			require.NoError(r, (<-theirs).Err)
			other.alive()
			require.NoError(r, other.Close())
		}
		require.Zero(r, r.dev.Stats().Faults)
	}},
	{"context aborts what is about to run", func(r *rig) {
		for range 200 {
			c := r.client()
			results := c.submit(c.ch, c.kernel("spin"))
			require.NoError(r, c.Close())
			require.ErrorIs(r, (<-results).Err, gpu.ErrClosed)
		}
	}},
	{"from several goroutines", func(r *rig) {
		c := r.client()
		b := c.device(1 << 20)
		second, err := c.NewChannel()
		require.NoError(r, err)
		running := c.running(c.ch, "hammer", b.va)
		errs := make(chan error)
		closers := []func() error{c.ch.Close, second.Close, c.Close, c.Close, b.Close, c.mod.Close, r.dev.Close}
		for _, f := range closers {
			go func() { errs <- f() }()
		}
		for range closers {
			require.NoError(r, <-errs)
		}
		require.Error(r, (<-running).Err)
	}},
	{"device", func(r *rig) {
		a, b := r.client(), r.client()
		running := a.running(a.ch, "hammer", a.device(1).va)
		queued := b.submit(b.ch, b.kernel("spin"))
		require.NoError(r, r.dev.Close())
		require.NoError(r, r.dev.Close(), "twice")
		require.ErrorIs(r, (<-running).Err, gpu.ErrClosed)
		require.ErrorIs(r, (<-queued).Err, gpu.ErrClosed)
		require.ErrorIs(r, a.Err(), gpu.ErrClosed)
		_, err := r.dev.NewContext("late")
		require.ErrorIs(r, err, gpu.ErrClosed)
		require.NoError(r, a.Close())
		require.Zero(r, r.dev.Stats().Channels)
	}},
}
