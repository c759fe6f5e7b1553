package capi

import (
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Stream memory operations: a stream writes a word of memory, or waits until a word satisfies a
// condition.

// Types of CUstreamBatchMemOpType.
const (
	memOpWait32  = 1
	memOpWrite32 = 2
	memOpFlush   = 3
	memOpWait64  = 4
	memOpWrite64 = 5
	memOpBarrier = 6
)

// Flags of waits, below which is the condition, and of writes.
const (
	waitConditions = 3
	waitFlush      = 1 << 30 // CU_STREAM_WAIT_VALUE_FLUSH
	writeUnordered = 1       // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER
)

// memOpBytes is the size of CUstreamBatchMemOpParams: the type, and at 8 the address, at 16 the
// value, at 24 the flags.
const memOpBytes = 48

// memOpSizes are the words of operations.
var memOpSizes = map[uint32]uint32{memOpWait32: 4, memOpWrite32: 4, memOpWait64: 8, memOpWrite64: 8}

// memOp checks one operation.
func (c *call) memOp(x *context, kind uint32, addr, value uint64, flags uint32) (cuda.MemOp, error) {
	op := cuda.MemOp{Size: memOpSizes[kind]}
	switch kind {
	case memOpWait32, memOpWait64:
		switch {
		case flags&waitFlush != 0:
			return op, c.fail(cuda.ErrNotSupported, "a wait that flushes remote writes")
		case flags > waitConditions:
			return op, c.fail(cuda.ErrInvalidValue, "flags 0x%x of a wait", flags)
		}
		op.Op = drm.WaitGreaterEqual + drm.WordOp(flags)
	case memOpWrite32, memOpWrite64:
		if flags&^writeUnordered != 0 {
			return op, c.fail(cuda.ErrInvalidValue, "flags 0x%x of a write", flags)
		}
	}
	op.Addr = cuda.DevicePtr(c.pin(x, host(addr), uint64(op.Size)).addr)
	if op.Value = value; op.Size == 4 {
		op.Value = uint64(uint32(value))
	}
	return op, nil
}

// memOps reads n CUstreamBatchMemOpParams. Barriers need nothing: a stream does one after the
// other, and others see that order.
func (c *call) memOps(x *context, addr uint64, n uint32) ([]cuda.MemOp, error) {
	if n > cuda.MaxMemOps {
		return nil, c.fail(cuda.ErrInvalidValue, "%d operations", n)
	}
	b, err := c.read(addr, int(n)*memOpBytes)
	if err != nil {
		return nil, err
	}
	var ops []cuda.MemOp
	for ; len(b) > 0; b = b[memOpBytes:] {
		switch kind := le32(b); kind {
		case memOpWait32, memOpWrite32, memOpWait64, memOpWrite64:
			op, err := c.memOp(x, kind, le64(b[8:]), le64(b[16:]), le32(b[24:]))
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		case memOpBarrier:
			if flags := le32(b[4:]); flags > 1 {
				return nil, c.fail(cuda.ErrInvalidValue, "flags 0x%x of a barrier", flags)
			}
		case memOpFlush:
			return nil, c.fail(cuda.ErrNotSupported, "an operation that flushes remote writes")
		default:
			return nil, c.fail(cuda.ErrInvalidValue, "an operation of type %d", kind)
		}
	}
	return ops, nil
}

func (c *call) streamMemOps(ops func(x *context) ([]cuda.MemOp, error)) error {
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	list, err := ops(x)
	if err != nil {
		return err
	}
	return c.settle(x, s, func() error { return x.MemOps(s, list) })
}

// oneMemOp gets (stream, address, value, flags).
func oneMemOp(kind uint32) func(c *call, x *context) ([]cuda.MemOp, error) {
	return func(c *call, x *context) ([]cuda.MemOp, error) {
		op, err := c.memOp(x, kind, c.u64(1), c.u64(2), c.u32(3))
		return []cuda.MemOp{op}, err
	}
}

// batchMemOps gets (stream, count, operations, flags).
func batchMemOps(c *call, x *context) ([]cuda.MemOp, error) {
	if c.u32(3) != 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(3))
	}
	return c.memOps(x, c.u64(2), c.u32(1))
}

func doMemOps(ops func(*call, *context) ([]cuda.MemOp, error)) func(*call) error {
	return func(c *call) error {
		return c.streamMemOps(func(x *context) ([]cuda.MemOp, error) { return ops(c, x) })
	}
}

// memOpWork is a node of stream memory operations.
type memOpWork struct {
	x     *context
	ops   []cuda.MemOp
	shown *shown
}

func (w *memOpWork) add(b *cuda.Batch) error {
	return b.Add(func(s *cuda.Stream) error { return w.x.MemOps(s, w.ops) })
}

func captureMemOps(ops func(*call, *context) ([]cuda.MemOp, error)) func(*call, *graphs, *context, *cuda.Stream) error {
	return func(c *call, g *graphs, x *context, s *cuda.Stream) error {
		list, err := ops(c, x)
		if err != nil {
			return err
		}
		w, err := newMemOpWork(x, list)
		if err != nil {
			return err
		}
		return put(g, s, graph.MemOps, w)
	}
}
