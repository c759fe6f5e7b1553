package libcuda

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// multiprocessor is what blocks share, as the occupancy calculation sees it.
type multiprocessor struct{ threads, warp, regs, shared, block int }

func multiprocessorOf(dev *cuda.Device) multiprocessor {
	get := func(a cuda.Attribute) int {
		v, _ := attribute(dev, int(a)) // all of these are known
		return v
	}
	return multiprocessor{get(cuda.AttributeMaxThreadsPerMultiprocessor), get(cuda.AttributeWarpSize),
		get(cuda.AttributeMaxRegistersPerBlock), get(cuda.AttributeMaxSharedMemoryPerBlock), get(cuda.AttributeMaxThreadsPerBlock)}
}

// blocks is how many blocks of a function fit on a multiprocessor at once.
func (m multiprocessor) blocks(f *function, threads int, dynamic uint64) int {
	if threads <= 0 || threads > m.block || m.warp <= 0 {
		return 0
	}
	a := f.Attributes()
	if a.MaxThreads > 0 && threads > int(a.MaxThreads) {
		return 0
	}
	threads = (threads + m.warp - 1) / m.warp * m.warp
	n := min(maxBlocksPerMultiprocessor, m.threads/threads)
	if a.Regs > 0 {
		n = min(n, m.regs/(int(a.Regs)*threads))
	}
	if shared := dynamic + uint64(a.SharedBytes); shared > uint64(m.shared) {
		return 0
	} else if shared > 0 {
		n = min(n, m.shared/int(shared))
	}
	return n
}

func occupancyBlocks(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	f, err := c.function(1)
	if err != nil {
		return err
	}
	if c.i32(2) <= 0 {
		return c.fail(cuda.ErrInvalidValue, "a block of %d threads", c.i32(2))
	}
	return to.set(uint64(multiprocessorOf(f.mod.ctx.Device()).blocks(f, int(c.i32(2)), c.u64(3))))
}

// occupancyBlockSize finds the smallest block that fills a multiprocessor best.
// The program may give a function that says how much shared memory a block of a size needs.
func occupancyBlockSize(c *call) error {
	grid, err := c.out32(0)
	if err != nil {
		return err
	}
	block, err := c.out32(1)
	if err != nil {
		return err
	}
	f, err := c.function(2)
	if err != nil {
		return err
	}
	dev := f.mod.ctx.Device()
	m := multiprocessorOf(dev)
	limit := m.block
	if l := int(c.i32(5)); l > 0 {
		limit = min(limit, l)
	}
	best, most, perMP := 0, 0, 0
	for size := limit / m.warp * m.warp; size > 0; size -= m.warp {
		dynamic := c.u64(4)
		if c.u64(3) != 0 {
			dynamic = c.lib.cfg.Invoke(c.u64(3), uint64(size), 0, 0)
		}
		if n := m.blocks(f, size, dynamic); n*size > most {
			best, most, perMP = size, n*size, n
		}
	}
	if best == 0 {
		return c.fail(cuda.ErrInvalidValue, "kernel %s fits in no block", f.Name())
	}
	mps, _ := attribute(dev, int(cuda.AttributeMultiprocessorCount))
	return errors.Join(grid.set(uint64(perMP*mps)), block.set(uint64(best)))
}

func occupancyDynamicShared(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	f, err := c.function(1)
	if err != nil {
		return err
	}
	if c.i32(2) <= 0 || c.i32(3) <= 0 {
		return c.fail(cuda.ErrInvalidValue, "%d blocks of %d threads", c.i32(2), c.i32(3))
	}
	m := multiprocessorOf(f.mod.ctx.Device())
	static := int(f.Attributes().SharedBytes)
	each := m.shared / int(c.i32(2))
	if each < static || m.blocks(f, int(c.i32(3)), 0) < int(c.i32(2)) {
		return c.fail(cuda.ErrInvalidValue, "%d blocks of %d threads do not fit", c.i32(2), c.i32(3))
	}
	return to.set(uint64(each - static))
}
