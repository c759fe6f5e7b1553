package softgpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/gpu/softgpu/hw"
)

func TestFramesStayWhole(t *testing.T) {
	f := newFrames(16 << 20)
	small := f.alloc(3 * hw.SmallPage)
	require.Equal(t, []extent{{0, 3 * hw.SmallPage}}, small)
	large := f.alloc(4<<20 + hw.SmallPage)
	require.Equal(t, []extent{{2 << 20, 4 << 20}, {3 * hw.SmallPage, hw.SmallPage}}, large,
		"whole blocks for the most of it, the rest where a block is broken up already")
	f.release(small[0], false)
	addr, ok := f.allocContiguous(256 << 10)
	require.True(t, ok)
	require.Equal(t, uint64(4*hw.SmallPage), addr)
	rest := f.alloc(16<<20 - f.used())
	require.NotNil(t, rest, "everything can be used, whole or not")
	require.Nil(t, f.alloc(hw.SmallPage))
	_, ok = f.allocContiguous(hw.SmallPage)
	require.False(t, ok)
}

func TestFramesFragmented(t *testing.T) {
	f := newFrames(4 << 20)
	var all []extent
	for range 4 << 20 / hw.SmallPage {
		all = append(all, f.alloc(hw.SmallPage)...)
	}
	for i := 0; i < len(all); i += 2 {
		f.release(all[i], false)
	}
	_, ok := f.allocContiguous(2 * hw.SmallPage)
	require.False(t, ok)
	require.Len(t, f.alloc(1<<20), 1<<20/hw.SmallPage, "scattered, but found")
}

// Frames are never given out twice, and all come back.
func TestFramesModel(t *testing.T) {
	const total = 8 << 20
	rapid.Check(t, func(t *rapid.T) {
		f := newFrames(total)
		inUse := make([]bool, total/hw.SmallPage)
		var held [][]extent
		take := func(t *rapid.T, ext []extent, size uint64) {
			var got uint64
			for _, e := range ext {
				got += e.size
				for a := e.addr; a < e.addr+e.size; a += hw.SmallPage {
					if inUse[a/hw.SmallPage] {
						t.Fatalf("frame 0x%x given out twice", a)
					}
					inUse[a/hw.SmallPage] = true
				}
			}
			if got != size {
				t.Fatalf("%d bytes, asked for %d", got, size)
			}
			held = append(held, ext)
		}
		size := rapid.OneOf(rapid.Uint64Range(1, 8), rapid.Uint64Range(1, 1500), rapid.SampledFrom([]uint64{65, 512, 1024}))
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := size.Draw(t, "frames") * hw.SmallPage
				ext := f.alloc(n)
				if ext == nil {
					if free := total - f.used(); free >= n {
						t.Fatalf("%d bytes refused, %d free", n, free)
					}
					return
				}
				take(t, ext, n)
			},
			"contiguous": func(t *rapid.T) {
				n := rapid.Uint64Range(1, framesPerBlock).Draw(t, "frames") * hw.SmallPage
				if addr, ok := f.allocContiguous(n); ok {
					take(t, []extent{{addr, n}}, n)
				}
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				for _, e := range held[i] {
					warm := f.heat(e, total/4)
					f.release(e, warm)
					for a := e.addr; a < e.addr+e.size; a += hw.SmallPage {
						inUse[a/hw.SmallPage] = false
					}
				}
				held = slices.Delete(held, i, i+1)
			},
			"cool": func(t *rapid.T) {
				f.cool(func(e extent) {
					for a := e.addr; a < e.addr+e.size; a += hw.SmallPage {
						if inUse[a/hw.SmallPage] {
							t.Fatalf("frame 0x%x is in use", a)
						}
					}
				})
				require.Zero(t, f.warm)
			},
			"": func(t *rapid.T) {
				checkWarm(t, f)
				var n uint64
				for _, u := range inUse {
					if u {
						n += hw.SmallPage
					}
				}
				if f.used() != n {
					t.Fatalf("%d bytes in use by its count, %d by ours", f.used(), n)
				}
			},
		})
	})
}
