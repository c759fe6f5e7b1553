package nvidia

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker that a guest has taken over writes what it likes into fences: what this process has seen to end
// stays so.
func TestPendingBelievesTheHost(t *testing.T) {
	const slot = 3
	for _, test := range []struct {
		name          string
		dropped       uint64
		fence, number uint32
		want          bool
	}{
		{name: "runs", dropped: 1, fence: 6, number: 7, want: true},
		{name: "has ended on the GPU", dropped: 1, fence: 7, number: 7},
		{name: "wrapped", dropped: 1, fence: 2, number: 0xfffffff0},
		{name: "not yet, about to wrap", dropped: 1, fence: 0xfffffff0, number: 2, want: true},
		{name: "set back", dropped: 2, fence: 0, number: 7},
		{name: "never reached since it was refused", dropped: 3, fence: 6, number: 7},
	} {
		l := lane{mem: make([]byte, laneBytes)}
		l.store(offFences+slot*fenceStride, test.fence)
		ch := &channel{slot: slot}
		ch.dropped.Store(test.dropped)
		x := following{ch: ch, seq: 2, number: test.number}
		require.Equal(t, test.want, x.pending(l), test.name)
	}
}
