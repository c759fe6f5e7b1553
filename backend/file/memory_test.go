package file

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gem/quota"
)

// What the driver takes for contexts counts as used, and belongs to the file.
func TestMemoryThatTheDriverTakes(t *testing.T) {
	const total, page = 100 << 20, 2 << 20
	r := newRig(t, quota.Limits{})
	defer func() { require.NoError(t, r.Close()) }()
	r.dev.VRAMBytes = total
	require.NoError(t, r.NewVRAM(1, page))
	require.EqualValues(t, page, r.Held())
	require.Equal(t, r.dev.VRAMUsed(), r.Used())
	for _, test := range []struct{ occupied, used, free, held uint64 }{
		{occupied: 10 << 20, used: 20 << 20, free: 80 << 20, held: 10 << 20},
		{occupied: page / 2, used: page, free: total - page, held: page},
		{occupied: 60 << 20, used: 120 << 20, free: 0, held: 60 << 20},
	} {
		r.dev.Occupied = test.occupied
		require.Equal(t, test.used, r.Used())
		require.Equal(t, test.held, r.Held())
		most, free := r.Room()
		require.EqualValues(t, total, most)
		require.Equal(t, test.free, free)
	}
}
