package nvidia

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// A batch that was lost with a worker was lost once, however often its channel looks before another takes over.
func TestABatchIsLostOnce(t *testing.T) {
	for _, task := range []bool{false, true} {
		b := &batch{}
		b.of(make([]gpu.Command, 2), nil)
		b.task = task
		b.again(0)
		require.Zero(t, b.replays, "nothing of it has begun")
		b.begun, b.ended = 2, 1
		for range 5 {
			b.again(0)
		}
		require.Equal(t, 1, b.replays)
		b.begun = 2
		b.again(1)
		require.Equal(t, 2, b.replays)
	}
}
