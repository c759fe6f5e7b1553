package hw

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The formats are an interface: other drivers will write them.
func TestFormats(t *testing.T) {
	require.Equal(t, PTE(0x0000_0000_0000_1231), MakePTE(TargetVRAM, 0x123000, false))
	require.Equal(t, PTE(0x0000_0004_ffff_fff5), MakePTE(TargetSystem, AddressMax-SmallPage, true))
	require.Equal(t, PDE(0x0000_0051_0000_3001), MakePDE(0x300000, 0x5000))
	e := PTE(0x0000_0006_0000_2005)
	require.Equal(t, TargetNoSnoop, e.Target())
	require.Equal(t, uint64(0x200000), e.Addr())
	require.True(t, e.ReadOnly())
	require.True(t, e.OK(SmallPage))
	require.True(t, e.OK(LargePage))
	for name, bad := range map[string]PTE{
		"invalid":    e &^ pteValid,
		"target 1":   e&^pteTarget | 1<<33,
		"supervisor": e | 1<<1,
		"bit 3":      e | 1<<3,
		"volatile":   e | 1<<32,
		"kind":       e | 1<<36,
		"bit 63":     e | 1<<63,
	} {
		require.False(t, bad.OK(SmallPage), name)
	}
	require.False(t, (e | 1<<4).OK(LargePage), "misaligned")
	_, ok := (MakePDE(0, 0) | 1<<2).Large()
	require.False(t, ok)
	_, ok = (MakePDE(0, 0) | 1<<33).Small()
	require.False(t, ok)
	require.Equal(t, 64<<10, DirectoryBytes)
	require.Equal(t, 260<<10, TableBytes)
}

// hostPages returns n bytes of page-aligned memory.
func hostPages(t testing.TB, n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return b
}

// place tells where memory is.
func place(b []byte) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[0]
}

// inside reports whether pages are some of those of a larger memory.
func inside(pages, all []byte) bool {
	for off := 0; off+len(pages) <= len(all); off += SmallPage {
		if place(pages) == &all[off] {
			return true
		}
	}
	return false
}

func TestBus(t *testing.T) {
	var b Bus
	pages := hostPages(t, 8*SmallPage)
	add := func(runs ...[]byte) *BusObject {
		o, err := b.Add(runs)
		require.NoError(t, err)
		return o
	}
	x, y, z := add(pages[:4096]), add(pages[4096:8192], pages[12288:16384]), add(pages[8192:12288])
	require.NotZero(t, x.Base)
	require.Equal(t, x.Base+4096, y.Base)
	require.Equal(t, y.Base+8192, z.Base)
	for _, c := range []struct {
		addr uint64
		want *byte
	}{
		{x.Base + 100, &pages[100]}, {y.Base + 4095, &pages[8191]}, {y.Base + 4096, &pages[12288]}, {z.Base, &pages[8192]},
	} {
		mem, off := b.Run(c.addr)
		require.Equal(t, c.want, &mem[off])
	}
	for _, addr := range []uint64{0, x.Base - 1, z.Base + 4096, AddressMax, 1<<64 - 1} {
		mem, _ := b.Run(addr)
		require.Nil(t, mem, "0x%x", addr)
	}
	b.Remove(y)
	b.Remove(y)
	mem, _ := b.Run(y.Base)
	require.Nil(t, mem)
	require.Equal(t, y.Base, add(pages[:8192]).Base, "addresses are used again")
}

// FuzzWalk reads page tables that an enemy wrote. Whatever they say, a walk
// ends, and leads to memory of the device or of the context's bus.
func FuzzWalk(f *testing.F) {
	const size = 4 << 20
	v, err := NewVRAM(size)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, v.Unmap()) })
	m := &MMU{VRAM: v}
	host := hostPages(f, 16*SmallPage)
	o, err := m.Bus.Add([][]byte{host[:4*SmallPage], host[8*SmallPage:]})
	require.NoError(f, err)
	words := func(w ...uint64) (b []byte) {
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	f.Add(words(), uint64(0), uint64(0))
	f.Add(words(uint64(MakePDE(0, 0))), uint64(0), uint64(0))
	f.Add(words(uint64(MakePDE(0x1000, size-8)), uint64(MakePTE(TargetSystem, o.Base, false))), uint64(0), uint64(4096))
	f.Fuzz(func(t *testing.T, tables []byte, directory, va uint64) {
		clear(v.mem[:1<<16])
		copy(v.mem[:1<<16], tables)
		page, base, _, ok := m.Lookup(directory, va)
		if !ok {
			return
		}
		n := uint64(len(page))
		require.GreaterOrEqual(t, n, uint64(SmallPage))
		require.LessOrEqual(t, n, uint64(LargePage))
		require.Zero(t, n&(n-1))
		require.Zero(t, base%n)
		require.Less(t, va-base, n)
		require.True(t, inside(page, v.mem) || inside(page, host[:4*SmallPage]) || inside(page, host[8*SmallPage:]))
	})
}
