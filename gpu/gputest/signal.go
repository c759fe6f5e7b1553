package gputest

import (
	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var signalTests = []test{
	{"refused", func(r *rig) {
		c, other := r.client(), r.client()
		b := c.device(256)
		word, closed := c.system(r.props.System.Page), c.system(r.props.System.Page)
		theirs := other.system(r.props.System.Page)
		readOnly, err := c.NewSystem([][]byte{c.pages(r.props.System.Page)})
		require.NoError(r, err)
		const far = 1 << 30
		require.NoError(r, c.Map(word.va+far, readOnly, 0, readOnly.Size(), gpu.ProtRead))
		require.NoError(r, other.Map(word.va+3*far, theirs.Memory, 0, theirs.Size(), readWrite))
		require.NoError(r, closed.Close())
		for name, va := range map[string]uint64{
			"unaligned":                   word.va + 2,
			"not mapped":                  word.va + 2*far,
			"behind its page":             word.va + r.props.System.Page,
			"of memory that was freed":    closed.va,
			"of another context":          word.va + 3*far,
			"read-only":                   word.va + far,
			"VRAM":                        b.va,
			"outside all windows":         64,
			"at the end of the addresses": ^uint64(3),
		} {
			l := c.kernel("store", b.va, uint32(5))
			l.Signal = va
			res := c.try(l)
			require.ErrorIs(r, res.Err, gpu.ErrInvalid, name)
			require.Contains(r, res.Err.Error(), "signal", name)
		}
		for _, host := range [][]byte{word.host, theirs.host} {
			require.Equal(r, make([]byte, len(host)), host, "nothing was stored")
		}
		c.alive()
		other.alive()
	}},
	{"of a short kernel", func(r *rig) {
		c := r.client()
		b := c.system(256)
		l := c.kernel("store", b.va, uint32(5))
		l.Signal = b.va + 128
		for range 100 {
			c.do(l)
		}
		require.Equal(r, uint32(5), word(b, 0))
		require.Zero(r, word(b, 128), "nobody else wanted the device")
	}},
	{"is not cleared", func(r *rig) {
		c := r.client()
		b := c.system(256)
		storeWord(b.host, 64, 7)
		l := c.kernel("await", b.va, b.va+64, b.va+128)
		l.Signal = b.va + 64
		c.do(l)
		require.Equal(r, []uint32{1, 7, 7}, []uint32{word(b, 0), word(b, 64), word(b, 128)})
	}},
	{"unmapped while the kernel runs", func(r *rig) {
		c := r.client()
		b, signal := c.system(256), c.system(256)
		l := c.kernel("await", b.va, b.va+64, b.va+128)
		l.Signal = signal.va
		res := c.submit(c.ch, l)
		c.waitWord(b, 0)
		closed := make(chan error)
		go func() { closed <- signal.Close() }() // which waits for the kernel, on some devices
		storeWord(b.host, 64, 3)
		require.NoError(r, (<-res).Err)
		require.NoError(r, <-closed)
		require.Equal(r, uint32(3), word(b, 128))
		c.alive()
	}},
}
