package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// resident counts the blocks of a function that run together on a multiprocessor. A kernel that
// waits for all its blocks at once ends only if it has no more than that for each multiprocessor.
func (f *function) resident(m cuda.Multiprocessor, threads int, dynamic uint64) int {
	a := f.Attributes()
	bound := a.MaxThreads > 0 && f.mod.code == nil // of machine code NVIDIA's driver counts blocks that it would not launch, too
	if bound && threads > int(a.MaxThreads) || dynamic > uint64(f.countedDynamic()) {
		return 0
	}
	return m.Resident(threads, int(a.Regs), uint64(a.SharedBytes)+dynamic)
}

// disableCachingOverride is CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE: there is no such caching.
const disableCachingOverride = 1

// occupancyFlags checks the flags in argument i.
func (c *call) occupancyFlags(i int) error {
	if c.u32(i)&^disableCachingOverride != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(i))
	}
	return nil
}

func occupancyBlocksFlags(c *call) error {
	if err := c.occupancyFlags(4); err != nil {
		return err
	}
	return occupancyBlocks(c)
}

func occupancyBlockSizeFlags(c *call) error {
	if err := c.occupancyFlags(6); err != nil {
		return err
	}
	return occupancyBlockSize(c)
}

func occupancyBlocks(c *call) error {
	to, f, err := c.outAndFunction(0, 4, 1)
	if err != nil {
		return err
	}
	if c.i32(2) <= 0 {
		return c.fail(cuda.ErrInvalidValue, "a block of %d threads", c.i32(2))
	}
	return to.set(uint64(f.resident(f.mod.ctx.Device().Multiprocessor(), int(c.i32(2)), c.u64(3))))
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
	m := dev.Multiprocessor()
	limit := m.Block
	if most := int(f.Attributes().MaxThreads); most > 0 { // what the kernel's launch bounds allow
		limit = min(limit, most)
	}
	if l := int(c.i32(5)); l > 0 {
		limit = min(limit, l)
	}
	best, most, perMP := 0, 0, 0
	for size := limit / m.Warp * m.Warp; size > 0; size -= m.Warp {
		dynamic := c.u64(4)
		if c.u64(3) != 0 {
			dynamic = c.lib.cfg.Invoke(c.u64(3), uint64(size), 0, 0)
		}
		if n := f.resident(m, size, dynamic); n*size > most {
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
	to, f, err := c.outAndFunction(0, 8, 1)
	if err != nil {
		return err
	}
	if c.i32(2) <= 0 || c.i32(3) <= 0 {
		return c.fail(cuda.ErrInvalidValue, "%d blocks of %d threads", c.i32(2), c.i32(3))
	}
	m := f.mod.ctx.Device().Multiprocessor()
	blocks, static := int(c.i32(2)), int(f.Attributes().SharedBytes)
	each := (m.Shared+m.Reserved)/blocks/m.Unit*m.Unit - m.Reserved
	if each < static || f.resident(m, int(c.i32(3)), 0) < blocks {
		return c.fail(cuda.ErrInvalidValue, "%d blocks of %d threads do not fit", blocks, c.i32(3))
	}
	return to.set(uint64(min(min(each, m.Shared)-static, f.countedDynamic())))
}
