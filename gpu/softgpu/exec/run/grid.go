package run

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Cooperative launches.
//
// Each cluster of a cooperative launch has a worker of its own, so all of them make progress while
// some of them spin. CUDA has no instruction for a barrier of the whole grid: the code that nvcc
// makes counts in a workspace that the driver provides, whose address is in %envreg1 (the upper
// half) and %envreg2. It has two words, its own size and the count of the barrier, which any
// value may begin. The engine keeps the workspace outside of the address space of the context,
// and so owes the owner of the context nothing for it.

// workspaceWords is the size of the page with the workspace, in words of 64 bits.
const workspaceWords = 4096 / 8

// workspaceSize is the word with which the workspace begins.
const workspaceSize = 8

// grid is the address space of a cooperative launch: that of its context, and the workspace.
type grid struct {
	tlb.Space
	words []uint64
}

// Lookup implements tlb.Space.
func (g *grid) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	if va-tlb.GridBase < 8*workspaceWords {
		return tlb.WordBytes(g.words), tlb.GridBase, gpu.ProtRead | gpu.ProtWrite, true
	}
	return g.Space.Lookup(va)
}

// cooperate prepares a cooperative launch, which needs a worker for each cluster. It does nothing
// for others.
func (r *run) cooperate(workers int) error {
	if !r.launch.Cooperative {
		return nil
	}
	if r.blocks/r.size > uint64(workers) {
		return fmt.Errorf("%w: %d blocks that run at the same time; %d are possible", gpu.ErrGridTooLarge, r.blocks, uint64(workers)*r.size)
	}
	r.grid = &grid{Space: r.space, words: make([]uint64, workspaceWords)}
	r.grid.words[0] = workspaceSize
	r.space = r.grid
	return nil
}

// workspace is the address in %envreg1 and %envreg2.
func (r *run) workspace() uint64 {
	if r.grid == nil {
		return 0
	}
	return tlb.GridBase
}
