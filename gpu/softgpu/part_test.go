package softgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// partGate notes for how many processors it was asked; 0 is all of them.
type partGate struct {
	*testGate
	last int
}

func (g *partGate) Enter(e gpu.Engine, beside bool) <-chan struct{} {
	g.last = 0
	return g.testGate.Enter(e, beside)
}

func (g *partGate) EnterPart(e gpu.Engine, processors, _ int) <-chan struct{} {
	g.last = processors
	return g.testGate.Enter(e, false)
}

func (g *partGate) Part(gpu.Engine) int { return g.last }

// TestProcessorsOfLaunches checks for how many processors a device asks its gate: for those that a launch, and those just
// before it, can use.
func TestProcessorsOfLaunches(t *testing.T) {
	const source = `.version 8.0
.target sm_90
.address_size 64
.visible .entry k() { ret; }
.visible .entry pairs() .reqnctapercluster 2,1,1 { ret; }
`
	g := &partGate{testGate: newTestGate()}
	c, ch := testContext(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 4, Gate: g}))
	m, err := c.LoadModule(t.Context(), "k.ptx", []byte(source), nil)
	require.NoError(t, err)
	pairs := [3]uint32{2, 1, 1}
	for i, l := range []struct {
		kernel        string
		grid, cluster [3]uint32
		want          int
	}{
		{kernel: "k", grid: [3]uint32{1, 1, 1}, want: 1},
		{kernel: "k", grid: [3]uint32{1, 2, 1}, want: 2},
		{kernel: "k", grid: [3]uint32{10, 10, 1}, want: 4},
		{kernel: "k", grid: [3]uint32{1, 1, 1}, want: 4}, // small and large ones in turn
		{kernel: "k", grid: [3]uint32{1, 1, 1}, want: 4},
		{kernel: "k", grid: [3]uint32{1, 1, 1}, want: 4},
		{kernel: "k", grid: [3]uint32{1, 1, 1}, want: 1},
		{kernel: "pairs", grid: [3]uint32{4, 1, 1}, want: 2},
		{kernel: "k", grid: [3]uint32{6, 1, 1}, cluster: pairs, want: 3},
	} {
		f, err := m.Function(l.kernel)
		require.NoError(t, err)
		launch := &gpu.Launch{Func: f, Grid: l.grid, Block: [3]uint32{32, 1, 1}, Cluster: l.cluster}
		require.NoError(t, (<-submit(t, ch, launch)).Err)
		require.Equal(t, l.want, g.last, "launch %d", i)
		require.Equal(t, l.want, ch.processors(), "the gate allows no more")
	}
	require.Equal(t, g.entered, g.left)
}
