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

// A worker of a kernel whose stack has no bound rests with what it has, and not with what it might have had.
func TestWorkerBytes(t *testing.T) {
	r := &run{kernel: &Kernel{fn: &ir.Function{FrameBytes: 100, Depth: ir.AnyDepth}}, size: 1, launch: Launch{Block: [3]uint32{32, 1, 1}, Limits: DefaultLimits()}}
	b := &block{warps: make([]warp, 1)}
	b.Shared = make([]byte, 128)
	w := &worker{run: r, blocks: []*block{b}}
	x := &b.warps[0]
	x.Store32, x.Store64, x.StorePr, x.Local = make([][32]uint32, 3), make([][32]uint64, 2), make([]uint32, 5), make([][32]uint32, 7)
	require.Equal(t, 128+3*128+2*256+5*4+7*128, w.bytes())
	require.Greater(t, r.clusterBytes(), w.bytes())
	x.Local = make([][32]uint32, maxRestBytes/128)
	require.Greater(t, w.bytes(), maxRestBytes, "too much to keep")
}
