package hostmem

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func memfd(t *testing.T, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return fd
}

func closed(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == unix.EBADF
}

func TestMapRefuses(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	plain, err := unix.Dup(int(file.Fd()))
	require.NoError(t, err)
	for _, c := range []struct {
		name      string
		fd        int
		off, size uint64
		want      string
	}{
		{name: "plain file", fd: plain, off: 0, size: 4096, want: "memfd sealed"},
		{name: "no seal", fd: memfd(t, 8192, unix.F_SEAL_GROW), off: 0, size: 4096, want: "memfd sealed"},
		{name: "nothing", fd: memfd(t, 8192, unix.F_SEAL_SHRINK), off: 0, size: 0, want: "out of range"},
		{name: "too much", fd: memfd(t, 8192, unix.F_SEAL_SHRINK), off: 0, size: 1 << 60, want: "out of range"},
		{name: "offset too far", fd: memfd(t, 8192, unix.F_SEAL_SHRINK), off: 1 << 63, size: 4096, want: "out of range"},
		{name: "beyond the end", fd: memfd(t, 8192, unix.F_SEAL_SHRINK), off: 4096, size: 8192, want: "has only 0x2000"},
		{name: "read only", fd: memfd(t, 8192, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE), off: 0, size: 4096, want: "mmap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Map(c.fd, c.off, c.size)
			require.ErrorContains(t, err, c.want)
			require.True(t, closed(c.fd))
		})
	}
}

func TestRegionLifetime(t *testing.T) {
	fd := memfd(t, 16384, unix.F_SEAL_SHRINK)
	r, err := Map(fd, 4096, 8192)
	require.NoError(t, err)
	require.Len(t, r.Bytes(), 8192)
	_, err = unix.Pwrite(fd, []byte("hello"), 4096)
	require.NoError(t, err)
	require.Equal(t, "hello", string(r.Bytes()[:5]))

	table, err := NewTable([]Slot{{Guest: 0x1000, User: 0x7000, Region: r}})
	require.NoError(t, err)
	r.Acquire()
	table.Release()
	require.False(t, closed(fd))
	require.Equal(t, "hello", string(r.Bytes()[:5]), "an acquired region outlives its table")
	r.Release()
	require.True(t, closed(fd))
	require.Panics(t, r.Release)
}

// An offset that is not a multiple of a page is no problem: QEMU cuts the RAM of
// a PC at 640 KiB, in the middle of a huge page.
func TestMapOddOffset(t *testing.T) {
	r, err := Map(memfd(t, 16384, unix.F_SEAL_SHRINK), 5000, 100)
	require.NoError(t, err)
	require.Len(t, r.Bytes(), 100)
	_, err = unix.Pwrite(r.FD(), []byte("here"), 5000)
	require.NoError(t, err)
	require.Equal(t, "here", string(r.Bytes()[:4]))
	r.Release()
}

func twoRegions(t *testing.T) *Table {
	t.Helper()
	a, err := Map(memfd(t, 8192, unix.F_SEAL_SHRINK), 0, 8192)
	require.NoError(t, err)
	b, err := Map(memfd(t, 4096, unix.F_SEAL_SHRINK), 0, 4096)
	require.NoError(t, err)
	table, err := NewTable([]Slot{{Guest: 0, User: 1 << 40, Region: a}, {Guest: 8192, User: 1 << 41, Region: b}})
	require.NoError(t, err)
	t.Cleanup(table.Release)
	return table
}

func TestLookUp(t *testing.T) {
	table := twoRegions(t)
	for _, c := range []struct{ addr, n, off, got uint64 }{
		{addr: 0, n: 1, off: 0, got: 1},
		{addr: 100, n: 8092, off: 100, got: 8092},
		{addr: 100, n: 9000, off: 100, got: 8092}, // goes on in the second region
		{addr: 8192, n: 9000, off: 0, got: 4096},
		{addr: 12287, n: 1, off: 4095, got: 1},
	} {
		_, off, got, err := table.Guest(c.addr, c.n)
		require.NoError(t, err)
		require.Equal(t, c.off, off)
		require.Equal(t, c.got, got)
	}
	_, _, _, err := table.Guest(12288, 1)
	require.ErrorIs(t, err, ErrUnmapped)

	mem, err := table.User(1<<41+96, 4000)
	require.NoError(t, err)
	require.Len(t, mem, 4000)
	for _, c := range []struct{ addr, n uint64 }{{1<<41 + 97, 4000}, {1<<40 - 1, 1}, {1 << 40, ^uint64(0)}} {
		_, err := table.User(c.addr, c.n)
		require.ErrorIs(t, err, ErrUnmapped)
	}
}

func TestMapContiguous(t *testing.T) {
	table := twoRegions(t)
	a, b := table.slots[0].Region, table.slots[1].Region
	mem, err := MapContiguous([]Span{{Region: b, Off: 0, Len: 4096}, {Region: a, Off: 4096, Len: 4096}, {Region: a, Off: 0, Len: 4096}})
	require.NoError(t, err)
	require.Len(t, mem, 3*4096)
	b.Bytes()[0], a.Bytes()[4096], a.Bytes()[0] = 1, 2, 3
	require.Equal(t, []byte{1, 2, 3}, []byte{mem[0], mem[4096], mem[8192]})
	mem[12287] = 9
	require.Equal(t, byte(9), a.Bytes()[4095])
	UnmapContiguous(mem)

	_, err = MapContiguous([]Span{{Region: a, Off: 100, Len: 4096}})
	require.ErrorContains(t, err, "not whole pages")
	_, err = MapContiguous([]Span{{Region: a, Off: 0, Len: 100}})
	require.ErrorContains(t, err, "not whole pages")
	_, err = MapContiguous(nil)
	require.ErrorContains(t, err, "nothing to map")
}

func TestWords(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	require.True(t, Aligned(b, 8))
	require.False(t, Aligned(b[2:], 4))
	require.Equal(t, uint32(0x08070605), LoadUint32(b, 4))
	require.Equal(t, uint16(0x0403), LoadUint16(b, 2))
	SwapUint32(b, 0, 0xa1b2c3d4)
	StoreUint16(b, 6, 0xe5f6)
	require.Equal(t, []byte{0xd4, 0xc3, 0xb2, 0xa1, 5, 6, 0xf6, 0xe5}, b)
	require.Panics(t, func() { LoadUint32(b, 6) })
	require.Panics(t, func() { LoadUint32(b, 2) })
	require.Panics(t, func() { StoreUint16(b, 7, 0) })
}

// Memory that runs of a file take the place of shows the file, and reads as zero when it is plain again.
func TestOver(t *testing.T) {
	r, err := New(4 * PageSize)
	require.NoError(t, err)
	defer r.Release()
	for i := range r.Bytes() {
		r.Bytes()[i] = byte(i / PageSize)
	}
	mem, err := unix.Mmap(-1, 0, 4*PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	mem[3*PageSize] = 9
	require.NoError(t, Over(mem, [][]byte{r.Bytes()[2*PageSize:], r.Bytes()[:PageSize]}))
	require.Equal(t, []byte{2, 3, 0, 9}, []byte{mem[0], mem[PageSize], mem[2*PageSize], mem[3*PageSize]})
	mem[1] = 77
	require.Equal(t, byte(77), r.Bytes()[2*PageSize+1])
	require.NoError(t, Plain(mem))
	require.Equal(t, make([]byte, len(mem)), mem)
	mem[1] = 5
	require.Equal(t, byte(77), r.Bytes()[2*PageSize+1])

	require.Error(t, Over(mem[:PageSize], [][]byte{r.Bytes()}), "too much")
	require.Error(t, Over(mem, [][]byte{r.Bytes()[:100]}), "not a page")
	require.Error(t, Over(mem, [][]byte{make([]byte, PageSize)}), "of no region")
}

// Memory that its owner may cut is mapped by whole pages, and its loss is a panic that can be caught.
func TestUnsealed(t *testing.T) {
	fd := memfd(t, 4097, 0)
	r, err := MapUnsealed(fd, 8192)
	require.NoError(t, err)
	defer r.Release()
	_, err = unix.Pwrite(fd, []byte("hello"), 4092)
	require.NoError(t, err)
	require.Equal(t, "hello", string(r.Bytes()[4092:4097]))
	span, err := Locate(r.Bytes()[4096:])
	require.NoError(t, err)
	require.EqualValues(t, 4096, span.FileOffset())
	require.NoError(t, unix.Ftruncate(r.FD(), 0))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	require.Panics(t, func() { r.Bytes()[0] = 1 })

	_, err = MapUnsealed(memfd(t, 4096, 0), 8192)
	require.ErrorContains(t, err, "has only 0x1000")
}
