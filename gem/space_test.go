package gem

import (
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newSpace(t require.TestingT, base, size uint64) *Space {
	s, err := NewSpace(base, size)
	require.NoError(t, err)
	return s
}

func alloc(t require.TestingT, s *Space, n, align uint64) uint64 {
	a, err := s.Alloc(n, align)
	require.NoError(t, err)
	return a
}

func TestSpaceArguments(t *testing.T) {
	_, err := NewSpace(math.MaxUint64, 2)
	require.ErrorIs(t, err, syscall.EINVAL)
	s := newSpace(t, 0x1000, 0x1000)
	for _, c := range []struct{ n, align uint64 }{{0, 1}, {1, 0}, {1, 3}, {1, math.MaxUint64}} {
		_, err := s.Alloc(c.n, c.align)
		require.ErrorIs(t, err, syscall.EINVAL, "%+v", c)
	}
	for _, c := range []struct{ n, align uint64 }{{0x1001, 1}, {math.MaxUint64, 1}, {1, 1 << 63}, {0x1000, 0x2000}} {
		_, err := s.Alloc(c.n, c.align)
		require.ErrorIs(t, err, ErrNoRoom, "%+v", c)
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.True(t, s.Empty())
	_, err = newSpace(t, 0x1000, 0).Alloc(1, 1)
	require.ErrorIs(t, err, ErrNoRoom)
}

func TestSpaceTopOfAddresses(t *testing.T) {
	s := newSpace(t, math.MaxUint64-0xfff, 0xfff)
	a := alloc(t, s, 0xfff, 1)
	_, err := s.Alloc(1, 1)
	require.ErrorIs(t, err, ErrNoRoom)
	_, err = s.Free(a)
	require.NoError(t, err)
	_, err = s.Alloc(1, 0x1000)
	require.NoError(t, err)
}

func TestSpaceBestFit(t *testing.T) {
	s := newSpace(t, 0, 100)
	a := alloc(t, s, 30, 1)
	alloc(t, s, 1, 1)
	c := alloc(t, s, 10, 1)
	alloc(t, s, 1, 1) // 58 bytes stay free at the end
	for _, p := range []uint64{a, c} {
		_, err := s.Free(p)
		require.NoError(t, err)
	}
	require.Equal(t, c, alloc(t, s, 10, 1), "the hole that fits exactly")
	require.Equal(t, a, alloc(t, s, 11, 1), "the smaller of two")
	require.Equal(t, uint64(42), alloc(t, s, 20, 1), "the rest of the hole is too small")
}

func TestSpaceFreeOnce(t *testing.T) {
	s := newSpace(t, 0x1000, 0x1000)
	a := alloc(t, s, 0x100, 0x100)
	for _, p := range []uint64{0, a + 1, a + 0x100} {
		_, err := s.Free(p)
		require.ErrorIs(t, err, ErrNotAllocated)
	}
	n, err := s.Free(a)
	require.NoError(t, err)
	require.EqualValues(t, 0x100, n)
	_, err = s.Free(a)
	require.ErrorIs(t, err, ErrNotAllocated)
	require.ErrorIs(t, err, syscall.EINVAL)
}

// The Space is compared with a bitmap of its units.
func TestSpaceAgainstBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const unit = 16
		base := rapid.Uint64Range(0, 8).Draw(t, "base") * unit
		units := rapid.IntRange(1, 200).Draw(t, "units")
		s := newSpace(t, base, uint64(units)*unit)
		taken := make([]bool, units)
		live := map[uint64]int{} // start → units

		// fits says whether a free run of n units starts at a multiple of align.
		fits := func(n int, align uint64) bool {
			for i := 0; i+n <= units; i++ {
				if (base+uint64(i)*unit)%align == 0 && !slices.Contains(taken[i:i+n], true) {
					return true
				}
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.IntRange(1, 40).Draw(t, "n")
				align := uint64(unit) << rapid.IntRange(0, 5).Draw(t, "shift")
				a, err := s.Alloc(uint64(n)*unit, align)
				if !fits(n, align) {
					require.ErrorIs(t, err, ErrNoRoom)
					return
				}
				require.NoError(t, err)
				require.Zero(t, a%align)
				require.GreaterOrEqual(t, a, base)
				at := int(a-base) / unit
				require.LessOrEqual(t, at+n, units)
				for i := at; i < at+n; i++ {
					require.False(t, taken[i], "handed out twice")
					taken[i] = true
				}
				live[a] = n
			},
			"free": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip("nothing to free")
				}
				starts := make([]uint64, 0, len(live))
				for a := range live {
					starts = append(starts, a)
				}
				slices.Sort(starts)
				a := rapid.SampledFrom(starts).Draw(t, "addr")
				n, err := s.Free(a)
				require.NoError(t, err)
				require.EqualValues(t, live[a]*unit, n)
				for i := range live[a] {
					taken[int(a-base)/unit+i] = false
				}
				delete(live, a)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(live) == 0, s.Empty())
				var free uint64
				for _, b := range taken {
					if !b {
						free += unit
					}
				}
				require.Equal(t, free, s.FreeBytes())
				for i := 1; i < len(s.free); i++ {
					require.Less(t, s.free[i-1].end(), s.free[i].start, "neighbours are joined")
				}
			},
		})
	})
}
