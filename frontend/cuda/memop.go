package cuda

import "pvdrm/drm"

// MemOp is an operation of a stream on a word of memory.
type MemOp struct {
	Addr  DevicePtr // a multiple of Size
	Value uint64
	Size  uint32 // bytes: 4 or 8
	Op    drm.WordOp
}

// MaxMemOps is how many operations one call may have.
const MaxMemOps = 256

// MemOps is cuStreamBatchMemOp: the stream writes words and waits for others, in this order. Work
// that is queued after a wait runs when its word has satisfied the condition once.
func (c *Context) MemOps(s *Stream, ops []MemOp) error {
	const call = "cuStreamBatchMemOp"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	s, err := c.pick(call, s)
	if err != nil {
		return err
	}
	if c.dev.params[drm.ParamWords] == 0 {
		return errorf(call, ErrNotSupported, "the device has no operations on words of memory")
	}
	if len(ops) > MaxMemOps {
		return errorf(call, ErrInvalidValue, "%d operations; at most %d are possible", len(ops), MaxMemOps)
	}
	cmds := make(wordCommands, len(ops))
	for i, op := range ops {
		if op.Size != 4 && op.Size != 8 || uint64(op.Addr)%uint64(op.Size) != 0 {
			return errorf(call, ErrInvalidValue, "a word of %d bytes at 0x%x", op.Size, uint64(op.Addr))
		}
		if err := c.check(call, "word", op.Addr, uint64(op.Size)); err != nil {
			return err
		}
		cmds[i] = drm.WordCmd{Addr: uint64(op.Addr), Value: op.Value & (1<<(8*op.Size) - 1), Size: op.Size, Op: op.Op}
	}
	if len(cmds) == 0 {
		return nil
	}
	_, err = submit(c, call, s, cmds)
	return err
}

// wordCommands are several commands that go to the device together.
type wordCommands []drm.WordCmd

// Append implements command.
func (w wordCommands) Append(b []byte) []byte {
	for _, c := range w {
		b = c.Append(b)
	}
	return b
}
