package capi

import "pvdrm/frontend/cuda"

// Hints of where managed memory is used. It does not move, so they are checked and have no effect.

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

// Locations of managed memory: CU_DEVICE_CPU, and the last CUmemLocationType of CUDA 12.8.
const (
	deviceCPU = -1

	locationHost     = 2
	locationHostLast = 4 // kinds of a NUMA node of the host are 3 and 4
)

// onOrdinal checks the device in argument i, where the program itself is one, too.
func (c *call) onOrdinal(i int) error {
	if c.i32(i) == deviceCPU {
		return nil
	}
	_, err := c.device(i)
	return err
}

// onLocation checks the CUmemLocation in argument i: a kind and, in the upper half, a number.
func (c *call) onLocation(i int) error {
	switch kind := c.u32(i); {
	case kind == locationDevice:
		_, err := c.lib.driver.Load().Device(int(int32(c.u64(i) >> 32)))
		return err
	case kind >= locationHost && kind <= locationHostLast:
		return nil
	default:
		return c.fail(cuda.ErrInvalidValue, "memory at a location of kind %d", kind)
	}
}

// The values of CUmem_advise: three settings, each with the one that takes it back.
const (
	firstAdvice   = 1
	lastAdvice    = 6
	readMostly    = 1 // has no location
	notReadMostly = 2
	notPreferred  = 4 // the same
)

func memAdvise(c *call) error   { return c.advise(c.onOrdinal) }
func memAdviseV2(c *call) error { return c.advise(c.onLocation) }

// advise gets (address, bytes, advice, device or location).
func (c *call) advise(located func(argument int) error) error {
	switch advice := c.u32(2); {
	case advice < firstAdvice || advice > lastAdvice:
		return c.fail(cuda.ErrInvalidValue, "advice %d", advice)
	case advice != readMostly && advice != notReadMostly && advice != notPreferred:
		if err := located(3); err != nil {
			return err
		}
	}
	return c.managed(c.u64(0), c.u64(1))
}

func memPrefetchAsync(c *call) error {
	if err := c.onOrdinal(2); err != nil {
		return err
	}
	return c.prefetch(3)
}

func memPrefetchAsyncV2(c *call) error {
	if err := c.noFlags(3); err != nil {
		return err
	}
	if err := c.onLocation(2); err != nil {
		return err
	}
	return c.prefetch(4)
}

func (c *call) prefetch(stream int) error {
	if _, _, err := c.stream(stream); err != nil {
		return err
	}
	return c.managed(c.u64(0), c.u64(1))
}

// Values of CUmemAttach_flags.
const (
	attachGlobal = 1
	attachHost   = 2
	attachSingle = 4 // to a stream, which the null stream is not
)

// streamAttachMemAsync takes a size of 0 for all of the memory.
func streamAttachMemAsync(c *call) error {
	switch f := c.u32(3); {
	case f != attachGlobal && f != attachHost && f != attachSingle:
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", f)
	case f == attachSingle && c.u64(0) == 0:
		return c.fail(cuda.ErrInvalidValue, "memory cannot be attached to the null stream alone")
	}
	if _, _, err := c.stream(0); err != nil {
		return err
	}
	return c.managed(c.u64(1), max(c.u64(2), 1))
}
