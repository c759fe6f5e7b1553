package yield

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNapper(t *testing.T) {
	n, err := NewNapper()
	require.NoError(t, err)
	for _, d := range []time.Duration{time.Nanosecond, 20 * time.Microsecond, 3 * time.Millisecond} {
		for _, nap := range []func(time.Duration){n.Nap, n.nap, Nap} {
			start := time.Now()
			nap(d)
			require.GreaterOrEqual(t, time.Since(start), d)
		}
	}
	require.NoError(t, n.Close())
	start := time.Now()
	n.nap(time.Millisecond) // without the timer
	require.GreaterOrEqual(t, time.Since(start), time.Millisecond)
	require.Error(t, n.Close())
}
