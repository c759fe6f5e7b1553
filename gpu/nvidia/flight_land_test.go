package nvidia

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// Commands that are seen to end at once end in order and share the time.
func TestLandTogether(t *testing.T) {
	b := new(batch)
	b.of([]gpu.Command{&gpu.Launch{}, &gpu.Launch{}, &gpu.Copy{}}, func(gpu.Result) {})
	fn := &function{}
	f := &flight{number: ^uint32(0) - 1} // numbers wrap around among them
	e := &engine{}
	f.hold(e, time.Now())
	launch := &work{entries: make([]entry, 1), fn: fn, cost: quietTime}
	for range 2 {
		require.True(t, f.takes(launch, e))
		f.add(b, launch, time.Now())
	}
	f.add(b, &work{}, time.Now()) // an empty copy ends with the command before it
	require.Equal(t, 2*quietTime, f.cost)
	require.Equal(t, 1, f.arrived(^uint32(0)))
	require.Equal(t, 1, b.ended)
	f.land(1)
	require.Equal(t, quietTime, f.cost)
	f.flying[0].begun = time.Now().Add(-time.Hour)
	f.landed = f.flying[0].begun
	require.Equal(t, 2, f.arrived(0))
	require.Equal(t, 3, b.ended)
	f.land(2)
	require.True(t, f.empty())
	require.Zero(t, f.cost)
	require.InDelta(t, float64(30*time.Minute), float64(fn.cost.Load()), float64(5*time.Minute))
}
