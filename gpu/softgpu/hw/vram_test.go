package hw

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// faults is how many pages the host has given this process so far.
func faults(t *testing.T) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return int64(u.Minflt)
}

// touch writes to each page of a range, and returns how many faults that took.
func touch(t *testing.T, v *VRAM, addr, n uint64) int64 {
	before := faults(t)
	for at := addr; at < addr+n; at += SmallPage {
		v.SetWord(at, v.Word(at)+1)
	}
	return faults(t) - before
}

// Small ranges that were populated are there, and zero; large ones come when they are touched, as do those that
// were given back.
func TestPopulate(t *testing.T) {
	v, err := NewVRAM(2 * LargePage)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Unmap()) }()
	if unix.Madvise(v.mem[:SmallPage], unix.MADV_POPULATE_WRITE) != nil {
		t.Skip("the kernel cannot populate memory (Linux 5.14 can)")
	}
	const pages, other = populateBytes / SmallPage, 40 // faults of the runtime's own
	v.Populate(0, populateBytes)
	require.Less(t, touch(t, v, 0, populateBytes), int64(other))
	require.Equal(t, uint64(1), v.Word(populateBytes-SmallPage), "it read as zero")
	v.Zero(0, populateBytes)
	require.GreaterOrEqual(t, touch(t, v, 0, populateBytes), int64(pages))
	require.Equal(t, uint64(1), v.Word(0))
	v.Populate(LargePage, populateBytes+SmallPage)
	require.GreaterOrEqual(t, touch(t, v, LargePage, populateBytes+SmallPage), int64(pages))
}
