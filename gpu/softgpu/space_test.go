package softgpu

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
)

// testSpace returns an address space over a few MiB of VRAM.
func testSpace(t testing.TB, size uint64) *space {
	v, err := newVRAM(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Unmap()) })
	v.reserve(hw.SmallPage)
	s, err := newSpace(v, new(mappings))
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

func TestLookup(t *testing.T) {
	s := testSpace(t, 32<<20)
	v := s.vram
	ctx := &context{dev: &device{vram: v, props: Config{VRAMBytes: 32 << 20}.properties(exec.DefaultLimits())}, space: s}
	ext, err := v.alloc(6 << 20)
	require.NoError(t, err)
	require.Len(t, ext, 1)
	vram := newVRAMMemory(ctx, ext)
	require.Zero(t, ext[0].addr%hw.LargePage)

	type found struct {
		base, size uint64
		first      *byte
		prot       gpu.Prot
	}
	look := func(va uint64) found {
		page, base, prot, ok := view{s, hw.View{MMU: &s.MMU, Directory: s.directory}}.Lookup(va)
		require.Equal(t, ok, page != nil)
		return found{base, uint64(len(page)), place(page), prot}
	}
	at := func(off uint64) *byte { return &v.Bytes(ext[0].addr+off, 1)[0] }
	const rw = gpu.ProtRead | gpu.ProtWrite

	// Aligned: large pages. Cut: the largest blocks of small ones.
	base := uint64(vramBase)
	require.NoError(t, s.insert(base, vram, 0, 4<<20, false))
	require.Equal(t, found{base + 2<<20, 2 << 20, at(2 << 20), rw}, look(base+2<<20+12345))
	_, ok, _ := s.remove(base+3<<20, hw.SmallPage)
	require.True(t, ok)
	require.Equal(t, found{base + 2<<20, 1 << 20, at(2 << 20), rw}, look(base+2<<20))
	require.Equal(t, found{}, look(base+3<<20))
	require.Equal(t, found{base + 3<<20 + 4096, 4096, at(3<<20 + 4096), rw}, look(base+3<<20+4096+8))
	require.Equal(t, found{base + 3<<20 + 8192, 8192, at(3<<20 + 8192), rw}, look(base+3<<20+8192+4100))
	require.Equal(t, found{base, 2 << 20, at(0), rw}, look(base), "the neighbour is whole")
	require.Equal(t, found{}, look(base-1))
	require.Equal(t, found{}, look(base+4<<20))
	require.Equal(t, found{}, look(hw.AddressMax))
	require.Equal(t, found{}, look(1<<63|base))

	// Rights end a block.
	ro := base + 8<<20
	require.NoError(t, s.insert(ro, vram, 4096, 8192, true))
	require.NoError(t, s.insert(ro+8192, vram, 4096+8192, 8192, false))
	require.Equal(t, found{ro, 8192, at(4096), gpu.ProtRead}, look(ro+5000))

	// System memory, in two runs: 2 MiB on the bus, never more than a run on the host.
	host := [][]byte{hostPages(t, 3<<20), hostPages(t, 1<<20)}
	o, err := s.Bus.Add(host)
	require.NoError(t, err)
	require.Zero(t, o.Base%hw.LargePage)
	sys := &memory{ctx: ctx, size: o.Size, object: o}
	base = systemBase
	require.NoError(t, s.insert(base, sys, 0, 4<<20, false))
	e, size, _ := v.Walk(s.directory, base+3<<20)
	require.Equal(t, hw.TargetSystem, e.Target())
	require.Equal(t, uint64(hw.LargePage), size)
	require.Equal(t, found{base, 2 << 20, place(host[0]), rw}, look(base))
	require.Equal(t, found{base + 2<<20, 1 << 20, &host[0][2<<20], rw}, look(base+2<<20+4097))
	require.Equal(t, found{base + 3<<20, 1 << 20, place(host[1]), rw}, look(base+3<<20+4097))

	// What left the bus is gone, even where page tables still name it.
	s.Bus.Remove(o)
	require.Equal(t, found{}, look(base))
}

func TestTablesComeAndGo(t *testing.T) {
	s := testSpace(t, 16<<20)
	v := s.vram
	ctx := &context{dev: &device{vram: v}, space: s}
	empty := v.used()
	ext, err := v.alloc(2 * hw.SmallPage)
	require.NoError(t, err)
	m := newVRAMMemory(ctx, ext)
	before := v.used()
	// Over the border of two directory entries.
	va := uint64(vramBase + hw.DirectorySpan - hw.SmallPage)
	require.NoError(t, s.insert(va, m, 0, 2*hw.SmallPage, false))
	require.Equal(t, before+2*hw.TableBytes, v.used())
	dead, _, _ := s.remove(va, hw.SmallPage)
	require.Len(t, dead, 1)
	v.free(dead...)
	dead, _, _ = s.remove(va, 2*hw.SmallPage)
	require.Len(t, dead, 1)
	v.free(dead...)
	require.Equal(t, before, v.used())
	require.Zero(t, v.Word(s.directory+va/hw.DirectorySpan*hw.EntryBytes))

	// No room for the second table: the first goes, too, and nothing is mapped.
	for v.used() < v.Size()-hw.TableBytes-hw.SmallPage {
		_, err := v.allocContiguous(hw.SmallPage)
		require.NoError(t, err)
	}
	before = v.used()
	require.ErrorIs(t, s.insert(va, m, 0, 2*hw.SmallPage, false), gpu.ErrNoMemory)
	require.Equal(t, before, v.used())
	require.Empty(t, s.maps)
	require.Empty(t, s.tables)
	require.Greater(t, before, empty)
}
