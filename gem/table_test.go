package gem

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTableAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 5
		table, model := NewTable[int]("thing", limit), map[uint32]int{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				v := rapid.Int().Draw(t, "value")
				id, err := table.Add(v)
				if len(model) == limit {
					require.ErrorIs(t, err, syscall.ENOSPC)
					return
				}
				require.NoError(t, err)
				require.NotZero(t, id)
				require.NotContains(t, model, id)
				require.LessOrEqual(t, id, uint32(limit), "ids are used again")
				model[id] = v
			},
			"take": func(t *rapid.T) {
				id := rapid.Uint32Range(0, limit+1).Draw(t, "id")
				v, err := table.Take(id)
				if want, ok := model[id]; ok {
					require.NoError(t, err)
					require.Equal(t, want, v)
					delete(model, id)
				} else {
					require.ErrorIs(t, err, syscall.ENOENT)
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), table.Len())
				got := map[uint32]int{}
				for id, v := range table.All {
					got[id] = v
				}
				require.Equal(t, model, got)
			},
		})
	})
}

func TestTablePut(t *testing.T) {
	table := NewTable[string]("thing", 2)
	require.ErrorIs(t, table.Put(0, "a"), syscall.EINVAL)
	require.NoError(t, table.Put(1<<31, "a"))
	require.ErrorIs(t, table.Put(1<<31, "b"), syscall.EEXIST)
	require.NoError(t, table.Put(7, "b"))
	require.ErrorIs(t, table.Put(8, "c"), syscall.ENOSPC)
	v, err := table.Get(1 << 31)
	require.NoError(t, err)
	require.Equal(t, "a", v)
	_, err = table.Get(8)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = table.Take(7)
	require.NoError(t, err)
	require.NoError(t, table.Put(7, "c"))
}

// Next finds each free id, and none in a full table.
func TestTableNext(t *testing.T) {
	table := NewTable[int]("thing", 3)
	for want := uint32(1); want <= 3; want++ {
		id, err := table.Next()
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.NoError(t, table.Put(id, 0))
	}
	_, err := table.Next()
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = table.Take(2)
	require.NoError(t, err)
	id, err := table.Next()
	require.NoError(t, err)
	require.EqualValues(t, 2, id)
}
