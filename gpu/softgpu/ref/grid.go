package ref

import (
	"encoding/binary"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

// maxTogether bounds the blocks of a cooperative launch, which take their turns.
const maxTogether = 64

// workspaceBytes is the size of the page that %envreg1 and %envreg2 name in a cooperative launch.
// It begins with the size of what the driver provides, and the count of the grid's barrier.
const workspaceBytes = 4096

// grid adds the workspace of a cooperative launch to an address space.
type grid struct {
	exec.Space
	page []byte
}

func newGrid(s exec.Space) *grid {
	g := &grid{Space: s, page: make([]byte, workspaceBytes)}
	binary.LittleEndian.PutUint32(g.page, 8)
	return g
}

// workspace is a half of its address, the lower one first; 0 in a launch that has none.
func workspace(l *exec.Launch, half ptx.Special) uint64 {
	if !l.Cooperative {
		return 0
	}
	return exec.GridBase >> (32 * half) & (1<<32 - 1)
}

// Lookup implements exec.Space.
func (g *grid) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	if va-exec.GridBase < workspaceBytes {
		return g.page, exec.GridBase, gpu.ProtRead | gpu.ProtWrite, true
	}
	return g.Space.Lookup(va)
}
