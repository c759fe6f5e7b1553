package file

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// FuzzFile makes calls in any order with any numbers, on a device that fails now and then. Whatever
// they are, the quotas are kept, pages are released once, batches end once and in order, and a file
// that is closed has given back all.
func FuzzFile(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyCalls)) }

func TestAnyCalls(t *testing.T) { rapid.Check(t, anyCalls) }

func anyCalls(t *rapid.T) {
	c := newAnyCaller()
	actions := map[string]func(*rapid.T){"": c.check}
	for _, some := range []map[string]func(*rapid.T){c.objects(), c.channels(), c.modules()} {
		maps.Copy(actions, some)
	}
	t.Repeat(actions)
	c.close(t)
}

// anyCaller makes calls with any numbers.
type anyCaller struct {
	*rig
	fail              bool // the device does
	granted, released int
	freeing           []*Freeing
	loading           *Load
	last              map[uint32]uint64 // points of channels
}

func newAnyCaller() *anyCaller {
	c := &anyCaller{last: map[uint32]uint64{}, rig: newRig(new(testing.B), quota.Limits{
		quota.VRAM: 5 << 12, quota.Granted: 5 << 12, quota.Objects: 6, quota.Runs: 8, quota.Channels: 3, quota.Modules: 2,
		quota.ModuleText: 100, quota.Functions: 3, quota.Queued: 8, quota.QueuedBytes: 8 << 10,
	})}
	c.dev.Fail = func(string) error {
		if c.fail {
			return errDevice
		}
		return nil
	}
	return c
}

var (
	ids     = rapid.OneOf(rapid.Uint32Range(0, 4), rapid.Just(^uint32(0)))
	numbers = rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Just(^uint64(0)), rapid.Just(uint64(4096)), rapid.Just(uint64(8192)))
)

func id(t *rapid.T) uint32     { return ids.Draw(t, "id") }
func number(t *rapid.T) uint64 { return numbers.Draw(t, "number") }

func (c *anyCaller) objects() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"device fails": func(t *rapid.T) { c.fail = rapid.Bool().Draw(t, "fails") },
		"vram":         func(t *rapid.T) { _ = c.NewVRAM(id(t), number(t)) },
		"grant": func(t *rapid.T) {
			if c.NewSystem(id(t), pages(id(t), rapid.IntRange(1, 3).Draw(t, "runs"), &c.released)) == nil {
				c.granted++
			}
		},
		"unmap":  func(t *rapid.T) { _ = c.UnmapObject(id(t)) },
		"close":  func(t *rapid.T) { _ = c.CloseObject(id(t)) },
		"revoke": func(t *rapid.T) { _, _ = c.Revoke(id(t)) },
		"bind": func(t *rapid.T) {
			op := func() drm.BindOp {
				return drm.BindOp{Op: uint32(number(t)), Flags: uint32(number(t)), Handle: id(t),
					Addr: number(t), BOOffset: number(t), Range: number(t)}
			}
			done, err := c.Bind([]drm.BindOp{op(), op()})
			require.Equal(t, err == nil, done == 2)
		},
	}
}

func (c *anyCaller) channels() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"channel": func(t *rapid.T) {
			n := id(t)
			if ch, err := c.NewChannel(n); err == nil {
				delete(c.last, n)
				require.Zero(t, ch.Submitted())
			}
		},
		"exec": func(t *rapid.T) {
			ch, err := c.Channel(id(t))
			if err != nil {
				return
			}
			seqno := ch.Submitted() + rapid.SampledFrom([]uint64{0, 1, 1, 1, 1, 2}).Draw(t, "step")
			var waits []drm.Point
			for range rapid.IntRange(0, 2).Draw(t, "waits") {
				waits = append(waits, drm.Point{Channel: id(t), Seqno: number(t)})
			}
			_, _ = c.Exec(ch, seqno, waits, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "stream"))
		},
		"advance": func(*rapid.T) { c.Advance() },
		"end": func(*rapid.T) {
			if c.held() > 0 {
				c.end(gpu.Result{})
			}
		},
		"free": func(t *rapid.T) {
			if fr, err := c.FreeChannel(id(t)); err == nil {
				c.freeing = append(c.freeing, fr)
			}
		},
		"freed": func(*rapid.T) {
			if len(c.freeing) > 0 && c.held() == 0 { // the device has ended what it had
				c.freeing[0].Wait()
				_ = c.EndFree(c.freeing[0])
				c.freeing = c.freeing[1:]
			}
		},
	}
}

func (c *anyCaller) modules() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"part": func(t *rapid.T) {
			text := make([]byte, rapid.IntRange(0, 6).Draw(t, "bytes"))
			if l, err := c.LoadPart(id(t), "m", number(t), number(t), text); err == nil && l != nil {
				l.Compile(context.Background())
				c.loading = l
			}
		},
		"loaded": func(*rapid.T) {
			if c.loading != nil {
				_ = c.EndLoad(c.loading)
				c.loading = nil
			}
		},
		"unload":   func(t *rapid.T) { _ = c.Unload(id(t)) },
		"function": func(t *rapid.T) { _, _ = c.Function(id(t), id(t), "f") },
		"global":   func(t *rapid.T) { _, _, _ = c.Global(id(t), "v") },
	}
}

// check checks what is always so.
func (c *anyCaller) check(t *rapid.T) {
	for res := range quota.Resources {
		require.LessOrEqual(t, c.guest.Used(res), c.guest.Limit(res), res.String())
	}
	require.LessOrEqual(t, c.released, c.granted)
	for ch, seqno := range c.reached {
		require.GreaterOrEqual(t, seqno, c.last[ch])
		c.last[ch] = seqno
	}
}

// close closes the file, which gives back all.
func (c *anyCaller) close(t *rapid.T) {
	c.fail = false
	for _, fr := range c.freeing {
		for c.held() > 0 {
			c.end(gpu.Result{})
		}
		fr.Wait()
		require.NoError(t, c.EndFree(fr))
	}
	require.NoError(t, c.Close())
	for res := range quota.Resources {
		require.Zero(t, c.guest.Used(res), res.String())
	}
	require.Equal(t, c.granted, c.released)
}
