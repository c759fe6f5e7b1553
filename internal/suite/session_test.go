package suite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Phase launch lasts from a launch until its kernels have ended, also while the program waits for a
// processor in between, and only so long.
func TestPhaseOfKernels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Env{}
		step := func(phase *float64, takes time.Duration) {
			require.NoError(t, e.timed(phase, func() error { time.Sleep(takes); return nil }))
		}
		step(&e.phases.HtoD, 1*time.Second)
		time.Sleep(2 * time.Second)
		step(&e.phases.Launch, 4*time.Second)
		e.underWay = e.ended
		time.Sleep(8 * time.Second)
		step(&e.phases.Launch, 16*time.Second) // this one waits for the kernels
		time.Sleep(32 * time.Second)
		step(&e.phases.Launch, 64*time.Second)
		e.underWay = e.ended
		time.Sleep(128 * time.Second)
		step(&e.phases.DtoH, 256*time.Second)
		time.Sleep(512 * time.Second)
		step(&e.phases.Launch, 1024*time.Second)
		require.InDelta(t, 4+8+16+64+1024, e.phases.Launch, 1e-6)
		require.InDelta(t, 1, e.phases.HtoD, 1e-6)
		require.InDelta(t, 256, e.phases.DtoH, 1e-6)
	})
}
