package cuda

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
)

// A context is compared with a model: byte slices by address, in which every
// operation takes effect at once.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newFakeGPU(t)
		g.lazy = rapid.Bool().Draw(rt, "lazy")
		g.params[drm.ParamVRAMPage] = rapid.SampledFrom([]uint64{4096, 2 << 20}).Draw(rt, "page")
		dev := newDevice(t, g)
		c, err := dev.CreateContext()
		require.NoError(rt, err)
		s := mustStream(rt, c)
		memory := map[DevicePtr][]byte{}
		pinned := map[DevicePtr]*HostMem{}
		seed := uint64(0)

		sizes := rapid.OneOf(rapid.Uint64Range(1, 600), rapid.Uint64Range(1, 100_000), rapid.Uint64Range(1, 3<<20))
		pick := func(t *rapid.T, name string) (p DevicePtr, off, n uint64) {
			if len(memory) == 0 {
				t.Skip("no memory")
			}
			all := make([]DevicePtr, 0, len(memory))
			for a := range memory {
				all = append(all, a)
			}
			slices.Sort(all)
			p = rapid.SampledFrom(all).Draw(t, name)
			size := uint64(len(memory[p]))
			off = rapid.Uint64Range(0, size).Draw(t, name+" offset")
			return p, off, rapid.Uint64Range(0, size-off).Draw(t, name+" size")
		}
		add := func(t *rapid.T, p DevicePtr, n uint64) {
			for a, b := range memory {
				require.False(t, p < a+DevicePtr(len(b)) && a < p+DevicePtr(n), "0x%x and 0x%x overlap", p, a)
			}
			require.NoError(t, c.MemsetD8(p, 0, n)) // what it holds is undefined
			memory[p] = make([]byte, n)
		}
		readAll := func(t *rapid.T) {
			for p, want := range memory {
				require.True(t, bytes.Equal(want, readBack(t, c, p, len(want))), "0x%x", p)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := sizes.Draw(t, "n")
				p, err := c.MemAlloc(n)
				if err != nil {
					isResult(t, ErrOutOfMemory, err)
					return
				}
				require.Zero(t, p%vramAlign)
				add(t, p, n)
			},
			"alloc host": func(t *rapid.T) {
				n := sizes.Draw(t, "n")
				h := mustHost(t, c, n)
				pinned[h.DevicePtr()] = h
				add(t, h.DevicePtr(), n)
			},
			"free": func(t *rapid.T) {
				p, off, _ := pick(t, "p")
				free := func() error { return c.MemFree(p) }
				if h := pinned[p]; h != nil {
					free = h.Free
				} else if memory[p+DevicePtr(off)] == nil { // right behind may be the next
					isResult(t, ErrInvalidValue, c.MemFree(p+DevicePtr(off)))
				}
				require.NoError(t, free())
				isResult(t, ErrInvalidValue, free())
				delete(memory, p)
				delete(pinned, p)
			},
			"write": func(t *rapid.T) {
				p, off, n := pick(t, "p")
				seed++
				b := noise(int(n), seed)
				require.NoError(t, c.MemcpyHtoD(p+DevicePtr(off), b))
				copy(memory[p][off:], b)
				clear(b)
			},
			"write past the end": func(t *rapid.T) {
				p, off, n := pick(t, "p")
				if off > 0 && memory[p+DevicePtr(off)] != nil {
					t.Skip("it is the beginning of the next")
				}
				b := make([]byte, uint64(len(memory[p]))-off+1+n%7)
				isResult(t, ErrInvalidValue, c.MemcpyHtoD(p+DevicePtr(off), b))
			},
			"write pinned": func(t *rapid.T) {
				p, off, n := pick(t, "p")
				h := pinned[p]
				if h == nil {
					t.Skip("not pinned")
				}
				require.NoError(t, c.Synchronize())
				require.Equal(t, memory[p][off:off+n], h.Bytes()[off:off+n])
				seed++
				copy(h.Bytes()[off:], noise(int(n), seed))
				copy(memory[p][off:], noise(int(n), seed))
			},
			"read": func(t *rapid.T) {
				p, off, n := pick(t, "p")
				require.True(t, bytes.Equal(memory[p][off:off+n], readBack(t, c, p+DevicePtr(off), int(n))))
			},
			"copy": func(t *rapid.T) {
				p, poff, n := pick(t, "from")
				q, qoff, m := pick(t, "to")
				n = min(n, m)
				stream := rapid.SampledFrom([]*Stream{nil, s}).Draw(t, "stream")
				err := c.MemcpyDtoDAsync(q+DevicePtr(qoff), p+DevicePtr(poff), n, stream)
				if p == q && n > 0 && poff < qoff+n && qoff < poff+n {
					isResult(t, ErrInvalidValue, err)
					return
				}
				require.NoError(t, err)
				copy(memory[q][qoff:qoff+n], memory[p][poff:])
			},
			"memset": func(t *rapid.T) {
				p, off, n := pick(t, "p")
				v := rapid.Uint32().Draw(t, "v")
				off, n = off&^3, n/4
				stream := rapid.SampledFrom([]*Stream{nil, s}).Draw(t, "stream")
				require.NoError(t, c.MemsetD32Async(p+DevicePtr(off), v, n, stream))
				for i := range n {
					copy(memory[p][off+4*i:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
				}
			},
			"synchronize": func(t *rapid.T) { require.NoError(t, c.Synchronize()) },
			"check all":   readAll,
		})
		require.NoError(rt, c.Destroy())
		require.Empty(rt, g.violations)
	})
}
