package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
)

// However much a block needs, one worker runs it; where blocks need much, few do.
func TestBlockBytes(t *testing.T) {
	k := &Kernel{fn: &ir.Function{FrameBytes: 100, Depth: ir.AnyDepth}}
	r := &run{kernel: k, launch: Launch{Block: [3]uint32{1024, 1, 1}, Limits: DefaultLimits()}}
	require.LessOrEqual(t, r.blockBytes(), maxRunBytes, "the most that a block may need")
	require.Greater(t, 2*r.blockBytes(), maxRunBytes)
	k.fn.Depth = 100
	require.Equal(t, 1024*100, r.blockBytes())
}
