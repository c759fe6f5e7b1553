package extent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSpace compares a space with a table of who has which number.
func TestSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const from, end = 3, 67
		s := New(from, end)
		var owner [end]int
		taken := map[int][2]uint64{}
		for id := 1; id < 60; id++ {
			if len(taken) > 0 && rapid.Bool().Draw(t, "give") {
				var ids []int
				for i := range id {
					if _, ok := taken[i]; ok {
						ids = append(ids, i)
					}
				}
				i := rapid.SampledFrom(ids).Draw(t, "which")
				r := taken[i]
				delete(taken, i)
				s.Give(r[0], r[1])
				for n := r[0]; n < r[0]+r[1]; n++ {
					owner[n] = 0
				}
				continue
			}
			n, align := rapid.Uint64Range(1, 20).Draw(t, "n"), uint64(1)<<rapid.IntRange(0, 4).Draw(t, "align")
			fits := func(at uint64) bool {
				for i := at; i < at+n; i++ {
					if i < from || i >= end || owner[i] != 0 {
						return false
					}
				}
				return true
			}
			want, found := uint64(0), false
			for at := uint64(0); at < end && !found; at += align {
				want, found = at, fits(at)
			}
			at, ok := s.Take(n, align)
			require.Equal(t, found, ok)
			if !ok {
				continue
			}
			require.Equal(t, want, at)
			taken[id] = [2]uint64{at, n}
			for i := at; i < at+n; i++ {
				owner[i] = id
			}
		}
		var used uint64
		for _, r := range taken {
			used += r[1]
		}
		require.Equal(t, used, s.Used())
	})
	_, ok := New(0, 8).Take(0, 1)
	require.False(t, ok)
}
