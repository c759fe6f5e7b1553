package progmem

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseMappings(t *testing.T) {
	all, err := parseMappings("55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]\n" +
		"7f0000000000-7f0000002000 rw-s 00001000 00:01 2055                       /memfd:a b (deleted)\n" +
		"7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n")
	require.NoError(t, err)
	require.Equal(t, []Mapping{
		{Start: 0x55d0c0000000, End: 0x55d0c0021000, Perms: "rw-p", Name: "[heap]"},
		{Start: 0x7f0000000000, End: 0x7f0000002000, Perms: "rw-s", Offset: 0x1000, Minor: 1, Inode: 2055, Name: "/memfd:a b (deleted)"},
		{Start: 0x7f0000002000, End: 0x7f0000003000, Perms: "---p"},
	}, all)
	for _, wrong := range []string{"\n", "1-2 rw-p 0 00:00\n", "1-2 rw 0 00:00 0\n", "x-2 rw-p 0 00:00 0\n", "2-1 rw-p 0 00:00 0\n", "1-2 rw-p 0 00 0\n", "1 rw-p 0 00:00 0\n"} {
		_, err := parseMappings(wrong)
		require.Error(t, err, "%q", wrong)
	}
}

// The kernel's own list has what was just mapped, with its rights.
func TestMappings(t *testing.T) {
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_READ))
	all, err := Mappings()
	require.NoError(t, err)
	at := address(b) + uint64(page)
	found := false
	for _, m := range all {
		if m.Start == at {
			found = true
			require.Equal(t, Mapping{Start: at, End: at + uint64(page), Perms: "r--p"}, m)
		}
	}
	require.True(t, found)
}
