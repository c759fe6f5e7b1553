package progmem

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// address is where mapped memory begins. Only the number is used.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func TestOwn(t *testing.T) {
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_NONE))
	require.NoError(t, unix.Mprotect(b[2*page:], unix.PROT_READ))
	at := address(b)
	var m Own

	require.NoError(t, m.Write(at+8, []byte("hello")))
	got := make([]byte, 5)
	require.NoError(t, m.Read(got, at+8))
	require.Equal(t, "hello", string(got))
	require.NoError(t, m.Read(nil, 0))
	require.NoError(t, m.Read(got, at+uint64(2*page)))
	for name, err := range map[string]error{
		"null":             m.Read(got, 0),
		"no access":        m.Read(got, at+uint64(page)),
		"into no access":   m.Read(make([]byte, 16), at+uint64(page)-8),
		"write into it":    m.Write(at+uint64(page)-8, make([]byte, 16)),
		"write to a const": m.Write(at+uint64(2*page), got),
		"of the kernel":    m.Read(got, 1<<63),
		"around the end":   m.Read(got, ^uint64(0)-2),
	} {
		require.ErrorIs(t, err, unix.EFAULT, name)
	}

	parts := make([]byte, 5)
	require.NoError(t, m.ReadParts(parts, []Range{{at + 12, 1}, {at + 8, 4}}))
	require.Equal(t, "ohell", string(parts))
	require.NoError(t, m.ReadParts(nil, nil))
	require.ErrorIs(t, m.ReadParts(parts, []Range{{at + 8, 4}, {at + uint64(page), 1}}), unix.EFAULT)
	require.ErrorIs(t, m.ReadParts(parts, []Range{{0, 1}, {at + 8, 4}}), unix.EFAULT)

	copy(b[page-6:], "string")
	_, err = ReadString(m, at+uint64(page)-6, 100)
	require.ErrorIs(t, err, unix.EFAULT, "it has no end before the page that cannot be read")
	b[page-1] = 0
	s, err := ReadString(m, at+uint64(page)-6, 100)
	require.NoError(t, err)
	require.Equal(t, "strin", string(s))
	_, err = ReadString(m, m.Keep([]byte(strings.Repeat("x", 9000)+"\x00")), 5000)
	require.ErrorIs(t, err, unix.EFAULT, "too long")
}

func TestDirect(t *testing.T) {
	b := make([]byte, 64)
	var m Direct = Own{}
	m.WriteDirect(address(b)+3, []byte("hello"))
	require.Equal(t, "hello", string(b[3:8]))
	got := make([]byte, 5)
	m.ReadDirect(got, address(b)+3)
	require.Equal(t, "hello", string(got))
	m.ReadDirect(nil, 0)
}
