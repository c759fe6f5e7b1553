package supervisor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gem/quota"
)

func TestBounds(t *testing.T) {
	const vram = 1 << 30
	usual := BoundsOf(Demand{VRAM: vram, Renderer: 4 << 30})
	require.Less(t, usual.Memory-vram-idleMemory, uint64(1<<30), "private memory with the default quotas, but what nothing touches")
	require.Less(t, usual.Heap, usual.Memory-vram)
	require.Equal(t, uint64(4<<30), usual.Start, "a renderer is started before the bound is its backend's own")
	require.GreaterOrEqual(t, usual.Group, usual.Memory+4<<30)
	require.Equal(t, uint(100), usual.Weight)
	less := BoundsOf(Demand{VRAM: vram, Limits: quota.Limits{quota.ModuleText: 1 << 20}})
	require.Less(t, less.Memory, usual.Memory)
	require.Equal(t, less.Memory, less.Start)
	workers := BoundsOf(Demand{Workers: true, Limits: quota.Limits{quota.Contexts: 10}, Weight: 3})
	require.Zero(t, workers.Start, "CUDA reserves more addresses than any bound")
	require.Equal(t, usual.Processes+10*perContext, workers.Processes)
	require.Equal(t, uint(300), workers.Weight)
	require.Equal(t, uint(mostWeight), BoundsOf(Demand{Weight: 9999}).Weight)
}
