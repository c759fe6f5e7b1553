package host

import (
	"errors"
	"sync/atomic"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
)

const page = 4096

// memory is what a program shares with its kernel. It has room for so many blocks, and paths of so many
// bytes.
type memory struct {
	context  *cuda.Context
	granted  *cuda.HostMem  // the signal word in a page of its own, blocks, paths
	device   cuda.DevicePtr // the queue, contexts
	signal   *atomic.Uint32
	blocks   []abi.Block
	texts    []byte
	textAt   uint64 // offset in granted
	contexts cuda.DevicePtr
}

// newMemory allocates it. reset prepares it for a run.
func newMemory(c *Config) (m *memory, err error) {
	m = &memory{context: c.Context}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.free())
		}
	}()
	blocks := uint64(c.Blocks)
	m.textAt = page + (blocks*abi.BlockBytes+63)&^63
	if m.granted, err = c.Context.MemAllocHost(m.textAt + blocks*abi.Slots*uint64(c.PathMax)); err != nil {
		return nil, err
	}
	mem := m.granted.Bytes()
	m.texts = mem[m.textAt:]
	if m.signal, err = abi.Word(mem, 0); err != nil {
		return nil, err
	}
	if m.blocks, err = abi.Blocks(mem[page:m.textAt], c.Blocks); err != nil {
		return nil, err
	}
	if m.device, err = c.Context.MemAlloc(abi.QueueBytes + blocks*abi.ContextBytes); err != nil {
		return nil, err
	}
	m.contexts = m.device + abi.QueueBytes
	return m, nil
}

// fits reports whether a run has room in it.
func (m *memory) fits(c *Config) bool {
	return len(m.blocks) >= c.Blocks && len(m.texts) >= c.Blocks*abi.Slots*c.PathMax
}

// reset prepares the memory for a run. It leaves alone what is written before it is read: requests,
// paths, contexts.
func (m *memory) reset(c *Config) error {
	m.signal.Store(0)
	for i := range m.blocks[:c.Blocks] {
		m.blocks[i].Reset()
	}
	queue := abi.Queue{Total: c.logical()}
	return m.context.MemcpyHtoD(m.device, queue.Bytes())
}

// text is where a slot has its path.
func (m *memory) text(at abi.Ref, n int) []byte {
	return m.texts[(at.Block*abi.Slots+at.Slot)*n:][:n]
}

// launch is the parameter of a launch.
func (m *memory) launch(c *Config, sequence uint32) []byte {
	base := m.granted.DevicePtr()
	l := abi.Launch{
		Signal: uint64(base), Queue: uint64(m.device), Contexts: uint64(m.contexts),
		Blocks: uint64(base) + page, Texts: uint64(base) + m.textAt,
		Look: uint64(c.Slice / 4), Spin: uint64(c.Spin), Grid: c.Grid,
		Every: c.Every, TextBytes: uint32(c.PathMax), Sequence: sequence, Ver: abi.Version,
	}
	return l.Bytes()
}

// free gives it back. No kernel uses it any more.
func (m *memory) free() error {
	var errs []error
	if m.device != 0 {
		errs = append(errs, m.context.MemFree(m.device))
	}
	if m.granted != nil {
		errs = append(errs, m.granted.Free())
	}
	return errors.Join(errs...)
}
