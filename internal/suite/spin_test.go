package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimedKernels(t *testing.T) {
	for name, want := range map[string]timed{
		"100us":         {took: 100 * time.Microsecond, blocks: 32},
		"100us/1:5@0.5": {took: 100 * time.Microsecond, blocks: 1, rounds: 5, waits: true, off: 0.5},
		"1s:7":          {took: time.Second, blocks: 32, rounds: 7},
		"300µs@0":       {took: 300 * time.Microsecond, blocks: 32, waits: true},
		"20ms:12@0.8":   {took: 20 * time.Millisecond, blocks: 32, rounds: 12, waits: true, off: 0.8},
		"1ms:99@0.9900": {took: time.Millisecond, blocks: 32, rounds: 99, waits: true, off: 0.99},
	} {
		x, err := parseTimed(name)
		require.NoError(t, err, name)
		require.Equal(t, want, x, name)
	}
	for _, name := range []string{"", "madd", "0s", "2s", "-1ms", "1ms:", "1ms:0", "1ms:-1", "1ms:2147483648", "1ms@", "1ms@1", "1ms@-0.1", "1ms@NaN", "1ms@0:5", "1ms/0", "1ms/33", "1ms/", "1ms/1/1"} {
		_, err := parseTimed(name)
		require.Error(t, err, name)
	}
}
