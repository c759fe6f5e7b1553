package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// Hints of where managed memory is used. It does not move, so they are checked and noted only.

// managed checks that n bytes at p are managed memory that the current context reaches.
func (c *call) managed(p, n uint64) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if _, h, _ := c.hostMem(p, n); h == nil || !h.Managed() || !h.ReachedBy(x.Context) || n == 0 {
		return c.fail(cuda.ErrInvalidValue, "%d bytes at 0x%x are not managed memory of the context", n, p)
	}
	return nil
}

// Locations of managed memory: CU_DEVICE_CPU, and the last CUmemLocationType of CUDA 12.8.
const (
	deviceCPU     = -1
	deviceInvalid = -2

	locationHost     = 2
	locationHostLast = 4 // kinds of a NUMA node of the host are 3 and 4
)

// onOrdinal is the device in argument i, where the program itself is one, too.
func (c *call) onOrdinal(i int) (location, error) {
	if c.i32(i) == deviceCPU {
		return location{kind: locationHost}, nil
	}
	_, err := c.device(i)
	return location{kind: locationDevice, id: c.i32(i)}, err
}

// onLocation is the CUmemLocation in argument i.
func (c *call) onLocation(i int) (location, error) {
	return locationOf(c.u64(i)), c.isLocation(c.u64(i))
}

// onAdvised is onLocation with an H100's error of cuMemAdvise for a device that there is not.
func (c *call) onAdvised(i int) (location, error) {
	at, err := c.onLocation(i)
	if errors.Is(err, cuda.ErrInvalidDevice) {
		err = c.fail(cuda.ErrInvalidValue, "memory on device %d", at.id)
	}
	return at, err
}

// locationOf decodes a CUmemLocation: a kind and, in the upper half, a number.
func locationOf(v uint64) location {
	if l := (location{kind: uint32(v), id: int32(v >> 32)}); l.kind != locationHost {
		return l
	}
	return location{kind: locationHost} // which has no number
}

// isLocation checks a CUmemLocation.
func (c *call) isLocation(v uint64) error {
	switch l := locationOf(v); {
	case l.kind == locationDevice:
		_, err := c.lib.driver.Load().Device(int(l.id))
		return err
	case l.kind >= locationHost && l.kind <= locationHostLast:
		return nil
	default:
		return c.fail(cuda.ErrInvalidValue, "memory at a location of kind %d", l.kind)
	}
}

// The values of CUmem_advise: three settings, each with the one that takes it back.
const (
	firstAdvice   = 1
	lastAdvice    = 6
	readMostly    = 1 // has no location
	notReadMostly = 2
	preferred     = 3
	notPreferred  = 4 // the same
	accessedBy    = 5
)

func memAdvise(c *call) error   { return c.advise(c.onOrdinal) }
func memAdviseV2(c *call) error { return c.advise(c.onAdvised) }

// advise gets (address, bytes, advice, device or location).
func (c *call) advise(located func(argument int) (location, error)) error {
	advice, at := c.u32(2), location{}
	switch {
	case advice < firstAdvice || advice > lastAdvice:
		return c.fail(cuda.ErrInvalidValue, "advice %d", advice)
	case advice != readMostly && advice != notReadMostly && advice != notPreferred:
		var err error
		if at, err = located(3); err != nil {
			return err
		}
	}
	if advice == preferred && at.kind > locationHost {
		at = location{} // as an H100: a NUMA node of the host is taken, and no preference comes of it
	}
	if err := c.managed(c.u64(0), c.u64(1)); err != nil {
		return err
	}
	by := uint64(1) << max(at.device()+1, 0)
	return c.note(c.u64(0), c.u64(1), func(h *hint) {
		switch advice {
		case readMostly, notReadMostly:
			h.readMostly = advice == readMostly
		case preferred, notPreferred:
			h.preferred = at
		case accessedBy:
			h.accessed |= by
		default:
			h.accessed &^= by
		}
	})
}

func memPrefetchAsync(c *call) error {
	at, err := c.onOrdinal(2)
	if err != nil {
		return err
	}
	return c.prefetch(3, at)
}

func memPrefetchAsyncV2(c *call) error {
	if err := c.noFlags(3); err != nil {
		return err
	}
	at, err := c.onLocation(2)
	if err != nil {
		return err
	}
	return c.prefetch(4, at)
}

func (c *call) prefetch(stream int, at location) error {
	if _, _, err := c.stream(stream); err != nil {
		return err
	}
	if err := c.managed(c.u64(0), c.u64(1)); err != nil {
		return err
	}
	return c.note(c.u64(0), c.u64(1), func(h *hint) { h.prefetched = at })
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
