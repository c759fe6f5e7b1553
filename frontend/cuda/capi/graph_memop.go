package capi

import (
	"encoding/binary"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// memOpNodeBytes is the size of CUDA_BATCH_MEM_OP_NODE_PARAMS: a context, and at 8 how many
// operations, at 16 the operations, at 24 flags.
const memOpNodeBytes = 32

// readMemOps reads CUDA_BATCH_MEM_OP_NODE_PARAMS.
func (c *call) readMemOps(addr uint64) (*memOpWork, error) {
	b, err := c.read(addr, memOpNodeBytes)
	if err != nil {
		return nil, err
	}
	x, err := c.of(le64(b)).context(0)
	if err != nil {
		return nil, c.fail(cuda.ErrInvalidValue, "a node of memory operations without a context: %w", err)
	}
	n := le32(b[8:])
	if le32(b[24:]) != 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "%d operations with flags 0x%x", n, le32(b[24:]))
	}
	ops, err := c.memOps(x, le64(b[16:]), n)
	if err != nil {
		return nil, err
	}
	return newMemOpWork(x, ops)
}

func newMemOpWork(x *context, ops []cuda.MemOp) (*memOpWork, error) {
	w := &memOpWork{x: x, ops: ops, shown: new(shown)}
	return w, w.add(x.NewBatch())
}

// bytes is CUDA_BATCH_MEM_OP_NODE_PARAMS. The operations lie in memory that is made when they are
// first asked for, and stays.
//
// Preconditions: graphs.mu is held.
func (w *memOpWork) bytes(c *call) []byte {
	if w.shown.array == 0 && len(w.ops) > 0 {
		var all []byte
		for _, op := range w.ops {
			all = append(all, memOpBytesOf(op)...)
		}
		w.shown.array = c.lib.cfg.Memory.Keep(all)
	}
	return wordBytes([]uint64{w.x.handle, uint64(len(w.ops)), w.shown.array, 0})
}

// memOpBytesOf is CUstreamBatchMemOpParams.
func memOpBytesOf(op cuda.MemOp) []byte {
	kind, flags := uint32(memOpWrite32), uint32(0)
	if op.Op != drm.WordWrite {
		kind, flags = memOpWait32, uint32(op.Op-drm.WaitGreaterEqual)
	}
	if op.Size == 8 {
		kind += memOpWait64 - memOpWait32
	}
	b := make([]byte, memOpBytes)
	binary.LittleEndian.PutUint32(b, kind)
	binary.LittleEndian.PutUint64(b[8:], uint64(op.Addr))
	binary.LittleEndian.PutUint64(b[16:], op.Value)
	binary.LittleEndian.PutUint32(b[24:], flags)
	return b
}

func graphAddBatchMemOpNode(c *call) error {
	return c.addNode(graph.MemOps, func() (any, error) { return c.readMemOps(c.u64(4)) })
}

func batchMemOpNodeGetParams(c *call) error {
	return c.getWork(graph.MemOps, memOpNodeBytes, func(n *graph.Node) []byte { return n.Work.(*memOpWork).bytes(c) })
}

func batchMemOpNodeSetParams(c *call) error {
	return c.setWork(0, graph.MemOps, func(any) (any, error) { return c.readMemOps(c.u64(1)) })
}

func graphExecBatchMemOpNodeSetParams(c *call) error {
	return c.setExecWork(graph.MemOps, func() (any, error) { return c.readMemOps(c.u64(2)) })
}
