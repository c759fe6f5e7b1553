package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// multiprocessor is what the blocks of a kernel share while they run together.
type multiprocessor struct {
	blocks      int // the most, however small
	threads     int
	warp        int
	regs        int
	shared      int // bytes for one block
	reserved    int // bytes of shared memory that each block takes besides its own
	granularity int // bytes, of what a block takes of shared memory
	block       int // threads of the largest block
}

func multiprocessorOf(dev *cuda.Device) multiprocessor {
	get := func(a int) int {
		v, _ := attribute(dev, a) // all of these are known
		return v
	}
	m := multiprocessor{
		blocks:      get(int(cuda.AttributeMaxBlocksPerMultiprocessor)),
		threads:     get(int(cuda.AttributeMaxThreadsPerMultiprocessor)),
		warp:        get(int(cuda.AttributeWarpSize)),
		regs:        get(attrRegsPerMultiprocessor),
		shared:      get(attrSharedOptin),
		reserved:    get(attrSharedReserved),
		granularity: 256,
		block:       get(int(cuda.AttributeMaxThreadsPerBlock)),
	}
	if capability(dev) >= ampere {
		m.granularity = 128
	}
	return m
}

// How NVIDIA's multiprocessors give out registers since compute capability 5.0: to whole
// warps, in multiples of regUnit, from one of their quarters.
const (
	regUnit  = 256
	quarters = 4
)

// resident counts the blocks of a function that run together on a multiprocessor. A kernel that
// waits for all its blocks at once ends only if it has no more than that for each multiprocessor.
func (m multiprocessor) resident(f *function, threads int, dynamic uint64) int {
	a := f.Attributes()
	bound := a.MaxThreads > 0 && f.mod.code == nil // of machine code NVIDIA's driver counts blocks that it would not launch, too
	if threads <= 0 || threads > m.block || m.warp <= 0 || bound && threads > int(a.MaxThreads) {
		return 0
	}
	if dynamic > uint64(f.countedDynamic()) {
		return 0
	}
	shared := uint64(a.SharedBytes) + dynamic
	if shared > uint64(m.shared) {
		return 0
	}
	warps := (threads + m.warp - 1) / m.warp
	n := min(m.blocks, m.threads/m.warp/warps)
	if a.Regs > 0 {
		each := roundUp(int(a.Regs)*m.warp, regUnit)
		n = min(n, m.regs/quarters/each*quarters/warps)
	}
	if each := roundUp(int(shared), m.granularity) + m.reserved; each > 0 {
		n = min(n, (m.shared+m.reserved)/each)
	}
	return max(n, 1) // a block that can be launched at all
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

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
	return to.set(uint64(multiprocessorOf(f.mod.ctx.Device()).resident(f, int(c.i32(2)), c.u64(3))))
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
	if most := int(f.Attributes().MaxThreads); most > 0 { // what the kernel's launch bounds allow
		limit = min(limit, most)
	}
	if l := int(c.i32(5)); l > 0 {
		limit = min(limit, l)
	}
	best, most, perMP := 0, 0, 0
	for size := limit / m.warp * m.warp; size > 0; size -= m.warp {
		dynamic := c.u64(4)
		if c.u64(3) != 0 {
			dynamic = c.lib.cfg.Invoke(c.u64(3), uint64(size), 0, 0)
		}
		if n := m.resident(f, size, dynamic); n*size > most {
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
	m := multiprocessorOf(f.mod.ctx.Device())
	blocks, static := int(c.i32(2)), int(f.Attributes().SharedBytes)
	each := (m.shared+m.reserved)/blocks/m.granularity*m.granularity - m.reserved
	if each < static || m.resident(f, int(c.i32(3)), 0) < blocks {
		return c.fail(cuda.ErrInvalidValue, "%d blocks of %d threads do not fit", blocks, c.i32(3))
	}
	return to.set(uint64(min(min(each, m.shared)-static, f.countedDynamic())))
}
