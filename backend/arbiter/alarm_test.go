package arbiter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An alarm rings once for a time that was set, at its last time only, and its goroutine ends with it.
func TestAlarm(t *testing.T) {
	for name, started := range map[string]bool{"of the kernel": true, "of go": false} {
		t.Run(name, func(t *testing.T) {
			rings := make(chan time.Time, 8)
			ring := func() { rings <- time.Now() }
			a := newAlarm(ring)
			ended := make(chan struct{})
			if started {
				wait := a.start(ring)
				require.NotNil(t, wait)
				go func() {
					defer close(ended)
					wait()
				}()
			} else {
				close(ended)
			}
			a.set(0) // at once
			<-rings
			a.set(-time.Second) // long ago
			<-rings
			a.set(time.Hour)
			a.set(math.MaxInt64) // in its place
			began := time.Now()
			a.set(20 * time.Millisecond)
			require.GreaterOrEqual(t, (<-rings).Sub(began), 20*time.Millisecond)
			a.set(time.Hour)
			a.stop()
			<-ended
			require.Empty(t, rings)
		})
	}
}
