package cuda

import "pvdrm/drm"

// fill is a memset of any form. Width is in elements.
type fill struct {
	dst           DevicePtr
	pitch         uint64 // bytes
	pattern       uint32
	element       uint32 // bytes: 1, 2 or 4
	width, height uint64
}

// MemsetD8 is cuMemsetD8 on the default stream: n bytes. Like all forms of
// memset it queues the work and returns; work that is queued later comes after.
// P must be a multiple of the size of an element (ErrInvalidValue).
func (c *Context) MemsetD8(p DevicePtr, v byte, n uint64) error {
	return c.memset("cuMemsetD8", nil, fill{p, 0, uint32(v), 1, n, 1})
}

// MemsetD16 is cuMemsetD16: n elements of 2 bytes.
func (c *Context) MemsetD16(p DevicePtr, v uint16, n uint64) error {
	return c.memset("cuMemsetD16", nil, fill{p, 0, uint32(v), 2, n, 1})
}

// MemsetD32 is cuMemsetD32: n elements of 4 bytes.
func (c *Context) MemsetD32(p DevicePtr, v uint32, n uint64) error {
	return c.memset("cuMemsetD32", nil, fill{p, 0, v, 4, n, 1})
}

// MemsetD8Async is cuMemsetD8Async.
func (c *Context) MemsetD8Async(p DevicePtr, v byte, n uint64, s *Stream) error {
	return c.memset("cuMemsetD8Async", s, fill{p, 0, uint32(v), 1, n, 1})
}

// MemsetD16Async is cuMemsetD16Async.
func (c *Context) MemsetD16Async(p DevicePtr, v uint16, n uint64, s *Stream) error {
	return c.memset("cuMemsetD16Async", s, fill{p, 0, uint32(v), 2, n, 1})
}

// MemsetD32Async is cuMemsetD32Async.
func (c *Context) MemsetD32Async(p DevicePtr, v uint32, n uint64, s *Stream) error {
	return c.memset("cuMemsetD32Async", s, fill{p, 0, v, 4, n, 1})
}

// MemsetD2D8 is cuMemsetD2D8: height rows of width bytes, pitch bytes apart.
func (c *Context) MemsetD2D8(p DevicePtr, pitch uint64, v byte, width, height uint64) error {
	return c.memset("cuMemsetD2D8", nil, fill{p, pitch, uint32(v), 1, width, height})
}

// MemsetD2D16 is cuMemsetD2D16: rows of width elements of 2 bytes.
func (c *Context) MemsetD2D16(p DevicePtr, pitch uint64, v uint16, width, height uint64) error {
	return c.memset("cuMemsetD2D16", nil, fill{p, pitch, uint32(v), 2, width, height})
}

// MemsetD2D32 is cuMemsetD2D32: rows of width elements of 4 bytes.
func (c *Context) MemsetD2D32(p DevicePtr, pitch uint64, v uint32, width, height uint64) error {
	return c.memset("cuMemsetD2D32", nil, fill{p, pitch, v, 4, width, height})
}

// MemsetD2D8Async is cuMemsetD2D8Async.
func (c *Context) MemsetD2D8Async(p DevicePtr, pitch uint64, v byte, width, height uint64, s *Stream) error {
	return c.memset("cuMemsetD2D8Async", s, fill{p, pitch, uint32(v), 1, width, height})
}

// MemsetD2D16Async is cuMemsetD2D16Async.
func (c *Context) MemsetD2D16Async(p DevicePtr, pitch uint64, v uint16, width, height uint64, s *Stream) error {
	return c.memset("cuMemsetD2D16Async", s, fill{p, pitch, uint32(v), 2, width, height})
}

// MemsetD2D32Async is cuMemsetD2D32Async.
func (c *Context) MemsetD2D32Async(p DevicePtr, pitch uint64, v uint32, width, height uint64, s *Stream) error {
	return c.memset("cuMemsetD2D32Async", s, fill{p, pitch, v, 4, width, height})
}

func (c *Context) memset(call string, s *Stream, f fill) error {
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	s, err := c.pick(call, s)
	if err != nil || f.width == 0 || f.height == 0 {
		return err
	}
	e := uint64(f.element)
	if uint64(f.dst)%e != 0 || f.height > 1 && f.pitch%e != 0 {
		return errorf(call, ErrInvalidValue, "the address 0x%x or the pitch %d is not a multiple of %d bytes", uint64(f.dst), f.pitch, e)
	}
	width, ok := product(f.width, e)
	if !ok {
		return errorf(call, ErrInvalidValue, "%d elements of %d bytes", f.width, e)
	}
	if f.height == 1 {
		f.pitch = width
	}
	if _, err := c.rows(call, "destination", f.dst, f.pitch, width, f.height); err != nil {
		return err
	}
	_, err = submit(c, call, s, drm.FillCmd{Dst: uint64(f.dst), Size: f.element, Pattern: f.pattern,
		Width: width, Height: f.height, Pitch: f.pitch})
	return err
}
