package softgpu

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/simt"
)

// The formats are an interface: other drivers will write them.
func TestFormats(t *testing.T) {
	require.Equal(t, pte(0x0000_0000_0000_1231), makePTE(targetVRAM, 0x123000, false))
	require.Equal(t, pte(0x0000_0004_ffff_fff5), makePTE(targetSystem, addressMax-smallPage, true))
	require.Equal(t, pde(0x0000_0051_0000_3001), makePDE(0x300000, 0x5000))
	e := pte(0x0000_0006_0000_2005)
	require.Equal(t, targetNoSnoop, e.target())
	require.Equal(t, uint64(0x200000), e.addr())
	require.True(t, e.readOnly())
	require.True(t, e.ok(smallPage))
	require.True(t, e.ok(largePage))
	for name, bad := range map[string]pte{
		"invalid":    e &^ pteValid,
		"target 1":   e&^pteTarget | 1<<33,
		"supervisor": e | 1<<1,
		"bit 3":      e | 1<<3,
		"volatile":   e | 1<<32,
		"kind":       e | 1<<36,
		"bit 63":     e | 1<<63,
	} {
		require.False(t, bad.ok(smallPage), name)
	}
	require.False(t, (e | 1<<4).ok(largePage), "misaligned")
	_, ok := (makePDE(0, 0) | 1<<2).large()
	require.False(t, ok)
	_, ok = (makePDE(0, 0) | 1<<33).small()
	require.False(t, ok)
	require.Equal(t, 64<<10, directoryBytes)
	require.Equal(t, 260<<10, tableBytes)
}

// testSpace returns an address space over a few MiB of VRAM.
func testSpace(t testing.TB, size uint64) *space {
	v, err := newVRAM(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.unmap()) })
	v.reserve(smallPage)
	s, err := newSpace(v)
	require.NoError(t, err)
	return s
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
	for off := 0; off+len(pages) <= len(all); off += smallPage {
		if place(pages) == &all[off] {
			return true
		}
	}
	return false
}

func TestLookup(t *testing.T) {
	s := testSpace(t, 32<<20)
	v := s.vram
	ctx := &context{dev: &device{vram: v, props: Config{VRAMBytes: 32 << 20}.properties(simt.DefaultLimits())}, space: s}
	ext, err := v.alloc(6 << 20)
	require.NoError(t, err)
	require.Len(t, ext, 1)
	vram := newVRAMMemory(ctx, ext)
	require.Zero(t, ext[0].addr%largePage)

	type found struct {
		base, size uint64
		first      *byte
		prot       gpu.Prot
	}
	look := func(va uint64) found {
		page, base, prot, ok := view{s, s.directory}.Lookup(va)
		require.Equal(t, ok, page != nil)
		return found{base, uint64(len(page)), place(page), prot}
	}
	at := func(off uint64) *byte { return &v.mem[ext[0].addr+off] }
	const rw = gpu.ProtRead | gpu.ProtWrite

	// Aligned: large pages. Cut: the largest blocks of small ones.
	base := uint64(vramBase)
	require.NoError(t, s.insert(base, vram, 0, 4<<20, false))
	require.Equal(t, found{base + 2<<20, 2 << 20, at(2 << 20), rw}, look(base+2<<20+12345))
	_, ok := s.remove(base+3<<20, smallPage)
	require.True(t, ok)
	require.Equal(t, found{base + 2<<20, 1 << 20, at(2 << 20), rw}, look(base+2<<20))
	require.Equal(t, found{}, look(base+3<<20))
	require.Equal(t, found{base + 3<<20 + 4096, 4096, at(3<<20 + 4096), rw}, look(base+3<<20+4096+8))
	require.Equal(t, found{base + 3<<20 + 8192, 8192, at(3<<20 + 8192), rw}, look(base+3<<20+8192+4100))
	require.Equal(t, found{base, 2 << 20, at(0), rw}, look(base), "the neighbour is whole")
	require.Equal(t, found{}, look(base-1))
	require.Equal(t, found{}, look(base+4<<20))
	require.Equal(t, found{}, look(addressMax))
	require.Equal(t, found{}, look(1<<63|base))

	// Rights end a block.
	ro := base + 8<<20
	require.NoError(t, s.insert(ro, vram, 4096, 8192, true))
	require.NoError(t, s.insert(ro+8192, vram, 4096+8192, 8192, false))
	require.Equal(t, found{ro, 8192, at(4096), gpu.ProtRead}, look(ro+5000))

	// System memory, in two runs: 2 MiB on the bus, never more than a run on the host.
	host := [][]byte{hostPages(t, 3<<20), hostPages(t, 1<<20)}
	o, err := s.bus.add(host)
	require.NoError(t, err)
	require.Zero(t, o.base%largePage)
	sys := &memory{ctx: ctx, size: o.size, object: o}
	base = systemBase
	require.NoError(t, s.insert(base, sys, 0, 4<<20, false))
	e, size, _ := v.walk(s.directory, base+3<<20)
	require.Equal(t, targetSystem, e.target())
	require.Equal(t, uint64(largePage), size)
	require.Equal(t, found{base, 2 << 20, place(host[0]), rw}, look(base))
	require.Equal(t, found{base + 2<<20, 1 << 20, &host[0][2<<20], rw}, look(base+2<<20+4097))
	require.Equal(t, found{base + 3<<20, 1 << 20, place(host[1]), rw}, look(base+3<<20+4097))

	// What left the bus is gone, even where page tables still name it.
	s.bus.remove(o)
	require.Equal(t, found{}, look(base))
}

func TestTablesComeAndGo(t *testing.T) {
	s := testSpace(t, 16<<20)
	v := s.vram
	ctx := &context{dev: &device{vram: v}, space: s}
	empty := v.used()
	ext, err := v.alloc(2 * smallPage)
	require.NoError(t, err)
	m := newVRAMMemory(ctx, ext)
	before := v.used()
	// Over the border of two directory entries.
	va := uint64(vramBase + directorySpan - smallPage)
	require.NoError(t, s.insert(va, m, 0, 2*smallPage, false))
	require.Equal(t, before+2*tableBytes, v.used())
	dead, _ := s.remove(va, smallPage)
	require.Len(t, dead, 1)
	v.free(dead...)
	dead, _ = s.remove(va, 2*smallPage)
	require.Len(t, dead, 1)
	v.free(dead...)
	require.Equal(t, before, v.used())
	require.Zero(t, v.word(s.directory+va/directorySpan*entryBytes))

	// No room for the second table: the first goes, too, and nothing is mapped.
	for v.used() < uint64(len(v.mem))-tableBytes-smallPage {
		_, err := v.allocContiguous(smallPage)
		require.NoError(t, err)
	}
	before = v.used()
	require.ErrorIs(t, s.insert(va, m, 0, 2*smallPage, false), gpu.ErrNoMemory)
	require.Equal(t, before, v.used())
	require.Empty(t, s.maps)
	require.Empty(t, s.tables)
	require.Greater(t, before, empty)
}

func TestBus(t *testing.T) {
	var b bus
	pages := hostPages(t, 8*smallPage)
	add := func(runs ...[]byte) *busObject {
		o, err := b.add(runs)
		require.NoError(t, err)
		return o
	}
	x, y, z := add(pages[:4096]), add(pages[4096:8192], pages[12288:16384]), add(pages[8192:12288])
	require.NotZero(t, x.base)
	require.Equal(t, x.base+4096, y.base)
	require.Equal(t, y.base+8192, z.base)
	for _, c := range []struct {
		addr uint64
		want *byte
	}{
		{x.base + 100, &pages[100]}, {y.base + 4095, &pages[8191]}, {y.base + 4096, &pages[12288]}, {z.base, &pages[8192]},
	} {
		mem, off := b.run(c.addr)
		require.Equal(t, c.want, &mem[off])
	}
	for _, addr := range []uint64{0, x.base - 1, z.base + 4096, addressMax, 1<<64 - 1} {
		mem, _ := b.run(addr)
		require.Nil(t, mem, "0x%x", addr)
	}
	b.remove(y)
	b.remove(y)
	mem, _ := b.run(y.base)
	require.Nil(t, mem)
	require.Equal(t, y.base, add(pages[:8192]).base, "addresses are used again")
}

// FuzzWalk reads page tables that an enemy wrote. Whatever they say, a walk
// ends, and leads to memory of the device or of the context's bus.
func FuzzWalk(f *testing.F) {
	const size = 4 << 20
	s := testSpace(f, size)
	host := hostPages(f, 16*smallPage)
	o, err := s.bus.add([][]byte{host[:4*smallPage], host[8*smallPage:]})
	require.NoError(f, err)
	words := func(w ...uint64) (b []byte) {
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	f.Add(words(), uint64(0), uint64(0))
	f.Add(words(uint64(makePDE(0, 0))), uint64(0), uint64(0))
	f.Add(words(uint64(makePDE(0x1000, size-8)), uint64(makePTE(targetSystem, o.base, false))), uint64(0), uint64(4096))
	f.Fuzz(func(t *testing.T, tables []byte, directory, va uint64) {
		clear(s.vram.mem[:1<<16])
		copy(s.vram.mem[:1<<16], tables)
		page, base, _, ok := view{s, directory}.Lookup(va)
		if !ok {
			return
		}
		n := uint64(len(page))
		require.GreaterOrEqual(t, n, uint64(smallPage))
		require.LessOrEqual(t, n, uint64(largePage))
		require.Zero(t, n&(n-1))
		require.Zero(t, base%n)
		require.Less(t, va-base, n)
		require.True(t, inside(page, s.vram.mem) || inside(page, host[:4*smallPage]) || inside(page, host[8*smallPage:]))
	})
}
