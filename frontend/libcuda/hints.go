package libcuda

import "pvdrm/frontend/cuda"

// Hints of where managed memory is used. It does not move, so they are checked and
// have no effect.

// managed checks that n bytes at p are managed memory of the current context.
func (c *call) managed(p, n uint64) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if h, _ := x.HostMemAt(p, n); h == nil || !h.Managed() {
		return c.fail(cuda.ErrInvalidValue, "%d bytes at 0x%x are not managed memory of the context", n, p)
	}
	return nil
}

// memAdvise has a device or a location last, of which all are as good.
func memAdvise(c *call) error { return c.managed(c.u64(0), c.u64(1)) }

func memPrefetchAsync(c *call) error { return c.prefetch(3) }

func memPrefetchAsyncV2(c *call) error {
	if c.u32(3) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(3))
	}
	return c.prefetch(4)
}

func (c *call) prefetch(stream int) error {
	if _, _, err := c.stream(stream); err != nil {
		return err
	}
	return c.managed(c.u64(0), c.u64(1))
}

// streamAttachMemAsync takes a size of 0 for all of the memory.
func streamAttachMemAsync(c *call) error {
	if _, _, err := c.stream(0); err != nil {
		return err
	}
	return c.managed(c.u64(1), max(c.u64(2), 1))
}
