package gputest

import (
	"encoding/binary"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var launchTests = []test{
	{"grid", func(r *rig) {
		c := r.client()
		for _, shape := range []struct{ grid, block uint32 }{
			{1, 1}, {1, 31}, {1, 32}, {1, 33}, {7, 100}, {1000, 1}, {3, uint32(r.props.MaxBlockDim[0])},
		} {
			n := shape.grid * shape.block
			b := c.device(uint64(n)*4 + 4)
			l := c.kernel("store", b.va, uint32(5))
			l.Grid[0], l.Block[0] = shape.grid, shape.block
			c.do(l)
			data := c.read(b.va, uint64(n)*4+4)
			for i := range n {
				require.Equal(r, 5+i, binary.LittleEndian.Uint32(data[4*i:]), "%+v", shape)
			}
			require.Zero(r, binary.LittleEndian.Uint32(data[4*n:]), "no thread too many")
			require.NoError(r, b.Close())
		}
	}},
	{"shared memory and barriers", func(r *rig) {
		c := r.client()
		b := c.device(256)
		l := c.kernel("reverse", b.va)
		l.Block[0], l.SharedBytes = 64, 256
		c.do(l)
		data := c.read(b.va, 256)
		for i := range 64 {
			require.Equal(r, uint32(63-i), binary.LittleEndian.Uint32(data[4*i:]))
		}
	}},
	{"most shared memory", func(r *rig) {
		c := r.client()
		b := c.device(256)
		l := c.kernel("reverse", b.va)
		l.SharedBytes = uint32(r.props.SharedPerBlock - 256)
		c.do(l)
		l = c.kernel("reverse", b.va)
		l.SharedBytes = uint32(r.props.SharedPerBlock - 256 + 1)
		require.ErrorIs(r, c.try(l).Err, gpu.ErrInvalid)
	}},
	{"cooperative", func(r *rig) {
		c := r.client()
		b := c.device(256)
		if !r.props.Cooperative {
			l := c.kernel("store", b.va, uint32(1))
			l.Cooperative = true
			require.ErrorIs(r, c.try(l).Err, gpu.ErrInvalid)
			c.alive()
			return
		}
		const threads, rounds = 64, 10
		blocks := uint32(r.props.Multiprocs)
		b = c.device(uint64(4 * blocks * threads))
		l := c.kernel("relay", b.va, uint32(rounds))
		l.Grid[0], l.Block[0], l.Cooperative = blocks, threads, true
		c.do(l, l)
		require.Equal(r, relayed(int(blocks*threads), threads, rounds), c.read(b.va, uint64(4*blocks*threads)))
		for _, grid := range [][3]uint32{{1<<31 - 1, 1, 1}, {1, 65535, 65535}} {
			tooLarge := *l
			tooLarge.Grid = grid
			require.ErrorIs(r, c.try(&tooLarge).Err, gpu.ErrGridTooLarge)
		}
		c.alive()
	}},
	{"refused", func(r *rig) {
		c, other := r.client(), r.client()
		b := c.device(256)
		p := r.props
		mine := c.kernel("reverse", b.va)
		theirs := other.kernel("reverse", b.va)
		for name, change := range map[string]func(l *gpu.Launch){
			"no function":          func(l *gpu.Launch) { l.Func = nil },
			"of another context":   func(l *gpu.Launch) { l.Func = theirs.Func },
			"no blocks":            func(l *gpu.Launch) { l.Grid[1] = 0 },
			"no threads":           func(l *gpu.Launch) { l.Block[2] = 0 },
			"grid y":               func(l *gpu.Launch) { l.Grid[1] = uint32(p.MaxGridDim[1]) + 1 },
			"grid z":               func(l *gpu.Launch) { l.Grid[2] = uint32(p.MaxGridDim[2]) + 1 },
			"grid x":               func(l *gpu.Launch) { l.Grid[0] = 1<<32 - 1 },
			"block x":              func(l *gpu.Launch) { l.Block[0] = uint32(p.MaxBlockDim[0]) + 1 },
			"block z":              func(l *gpu.Launch) { l.Block[2] = uint32(p.MaxBlockDim[2]) + 1 },
			"block in all":         func(l *gpu.Launch) { l.Block = [3]uint32{64, 64, 64} },
			"block overflows":      func(l *gpu.Launch) { l.Block = [3]uint32{1 << 16, 1 << 16, 1} },
			"more than .maxntid":   func(l *gpu.Launch) { l.Block[0] = 65 },
			"too much shared":      func(l *gpu.Launch) { l.SharedBytes = uint32(p.SharedPerBlock) },
			"shared overflows":     func(l *gpu.Launch) { l.SharedBytes = 1<<32 - 1 },
			"no parameters":        func(l *gpu.Launch) { l.Params = nil },
			"too few parameters":   func(l *gpu.Launch) { l.Params = l.Params[:7] },
			"too many parameters":  func(l *gpu.Launch) { l.Params = make([]byte, 9) },
			"far too many of them": func(l *gpu.Launch) { l.Params = make([]byte, 1<<16) },
		} {
			l := *mine
			change(&l)
			res := c.try(&l)
			require.ErrorIs(r, res.Err, gpu.ErrInvalid, name)
			require.Zero(r, res.Index)
		}
		require.ErrorIs(r, c.try((*gpu.Launch)(nil)).Err, gpu.ErrInvalid)
		c.alive()
	}},
	{"counters", func(r *rig) {
		c := r.client()
		b := c.device(256)
		l := c.kernel("store", b.va, uint32(1))
		before := r.dev.Stats()
		c.do(l, l, l)
		after := r.dev.Stats()
		require.Equal(r, before.Launches+3, after.Launches)
		require.Greater(r, after.ComputeBusy, before.ComputeBusy)
		require.Eventually(r, func() bool { // a device may count after it has answered
			after = r.dev.Stats()
			return after.LaunchTimes.Count() == before.LaunchTimes.Count()+3
		}, 10*time.Second, time.Millisecond)
		require.Greater(r, after.LaunchTime, before.LaunchTime)
		m, metered := c.Context.(gpu.Meter)
		if !metered {
			return
		}
		busy, _ := m.Busy()
		require.Positive(r, busy)
		require.LessOrEqual(r, busy, r.dev.Stats().ComputeBusy)
		busy, copies := r.client().Context.(gpu.Meter).Busy()
		require.Zero(r, busy+copies, "of another context")
	}},
}

// relayed is what the kernel relay leaves.
func relayed(n, threads, rounds int) []byte {
	values := make([]uint32, n)
	for i := range values {
		values[i] = uint32(i)
	}
	for range rounds {
		next := make([]uint32, n)
		for i, v := range values {
			next[i] = 3*v + values[(i+threads)%n]
		}
		values = next
	}
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}
