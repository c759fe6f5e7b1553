package file

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"pvdrm/gpu"
)

// noContext stands for the context of a file that has none. It implements gpu.Context, and refuses all.
type noContext struct{ closed atomic.Bool }

// refuse is the error of all that needs a context.
func (c *noContext) refuse() error {
	if err := c.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the file was opened to look at the device only: %w", syscall.EOPNOTSUPP)
}

// NewVRAM implements gpu.Context.
func (c *noContext) NewVRAM(uint64) (gpu.Memory, error) { return nil, c.refuse() }

// NewSystem implements gpu.Context.
func (c *noContext) NewSystem([][]byte) (gpu.Memory, error) { return nil, c.refuse() }

// Map implements gpu.Context.
func (c *noContext) Map(uint64, gpu.Memory, uint64, uint64, gpu.Prot) error { return c.refuse() }

// Unmap implements gpu.Context.
func (c *noContext) Unmap(uint64, uint64) error { return c.refuse() }

// LoadModule implements gpu.Context.
func (c *noContext) LoadModule(context.Context, string, []byte, gpu.Reserve) (gpu.Module, error) {
	return nil, c.refuse()
}

// NewChannel implements gpu.Context.
func (c *noContext) NewChannel() (gpu.Channel, error) { return nil, c.refuse() }

// Err implements gpu.Context.
func (c *noContext) Err() error {
	if c.closed.Load() {
		return gpu.ErrClosed
	}
	return nil
}

// Close implements gpu.Context.
func (c *noContext) Close() error {
	c.closed.Store(true)
	return nil
}
