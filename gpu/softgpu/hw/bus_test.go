package hw

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory lies where it was placed, and nothing is placed over other memory or behind the last address.
func TestPlace(t *testing.T) {
	var b Bus
	mem := make([]byte, 4*SmallPage)
	at := func(addr uint64) int {
		m, off := b.Run(addr)
		return len(m) - int(off)
	}
	for _, addr := range []uint64{8 * SmallPage, 0, 16 * SmallPage} {
		_, err := b.Place(addr, mem)
		require.NoError(t, err)
		require.Equal(t, len(mem), at(addr))
	}
	for _, addr := range []uint64{0, SmallPage, 5 * SmallPage, 11 * SmallPage, 19 * SmallPage, AddressMax - SmallPage, AddressMax, 1<<64 - 4096} {
		_, err := b.Place(addr, mem)
		require.Error(t, err, addr)
	}
	_, err := b.Place(4*SmallPage, mem)
	require.NoError(t, err, "what fits exactly")
	_, err = b.Place(AddressMax-4*SmallPage, mem)
	require.NoError(t, err)
	require.Nil(t, b.At(SmallPage))
	b.Remove(b.At(8 * SmallPage))
	require.Zero(t, at(8*SmallPage))
	require.Equal(t, len(mem), at(4*SmallPage))
	o, err := b.Add([][]byte{make([]byte, 4*SmallPage)})
	require.NoError(t, err)
	require.Zero(t, at(o.Base+4*SmallPage), "the allocator leaves what was placed alone")
}
