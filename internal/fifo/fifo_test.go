package fifo

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A queue is a slice that is cut at its front.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		var model []int
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				v := rapid.Int().Draw(t, "v")
				q.Push(v)
				model = append(model, v)
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				require.Equal(t, model[0], q.First())
				require.Equal(t, model[0], q.Pop())
				model = model[1:]
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), q.Len())
				require.True(t, slices.Equal(model, slices.Collect(q.All())))
			},
		})
	})
}

// One that is often empty, or never long, keeps its memory.
func TestAllocatesNothing(t *testing.T) {
	var q Queue[int]
	for range 10 {
		q.Push(0)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Push(1)
		q.Pop()
	}))
}
