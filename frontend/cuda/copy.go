package cuda

import (
	"bytes"
	"io"

	"pvdrm/drm"
)

func copyOf(dst, src, n uint64) drm.CopyCmd {
	return drm.CopyCmd{Dst: dst, Src: src, Width: n, Height: 1, DstPitch: n, SrcPitch: n}
}

// MemcpyHtoD is cuMemcpyHtoD on the default stream. When it returns, src may be
// changed; the copy takes effect before any work that is queued later.
func (c *Context) MemcpyHtoD(dst DevicePtr, src []byte) error {
	const call = "cuMemcpyHtoD"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if len(src) == 0 {
		return nil
	}
	if err := c.check(call, "destination", dst, uint64(len(src))); err != nil {
		return err
	}
	if from, ok := c.pinnedAt(src); ok {
		return c.copyAndWait(call, dst, from, uint64(len(src)))
	}
	return c.copyIn(call, uint64(dst), bytes.NewReader(src), uint64(len(src)))
}

// MemcpyFrom is MemcpyHtoD of n bytes that are read from src, in pieces and
// from several goroutines at once. An error of src is ErrInvalidValue; what was read
// before it is copied.
func (c *Context) MemcpyFrom(dst DevicePtr, src io.ReaderAt, n uint64) error {
	const call = "cuMemcpyHtoD"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if n == 0 {
		return nil
	}
	if err := c.check(call, "destination", dst, n); err != nil {
		return err
	}
	return c.copyIn(call, uint64(dst), src, n)
}

// MemcpyTo is MemcpyDtoH of n bytes that are written to dst, in pieces and from
// several goroutines at once. An error of dst is ErrInvalidValue.
func (c *Context) MemcpyTo(dst io.WriterAt, src DevicePtr, n uint64) error {
	const call = "cuMemcpyDtoH"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if n == 0 {
		return nil
	}
	if err := c.check(call, "source", src, n); err != nil {
		return err
	}
	return c.copyOut(call, dst, uint64(src), n)
}

// sliceWriter is a slice as an io.WriterAt. Who writes stays inside of it.
type sliceWriter []byte

func (w sliceWriter) WriteAt(p []byte, off int64) (int, error) { return copy(w[off:], p), nil }

// MemcpyDtoH is cuMemcpyDtoH on the default stream: it waits for what was
// queued before and for the copy.
func (c *Context) MemcpyDtoH(dst []byte, src DevicePtr) error {
	const call = "cuMemcpyDtoH"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if len(dst) == 0 {
		return nil
	}
	if err := c.check(call, "source", src, uint64(len(dst))); err != nil {
		return err
	}
	if to, ok := c.pinnedAt(dst); ok {
		return c.copyAndWait(call, to, src, uint64(len(dst)))
	}
	return c.copyOut(call, sliceWriter(dst), uint64(src), uint64(len(dst)))
}

// copyAndWait copies between memory that the device reaches itself.
func (c *Context) copyAndWait(call string, dst, src DevicePtr, n uint64) error {
	if err := disjoint(call, uint64(dst), uint64(src), n); err != nil {
		return err
	}
	p, err := submit(c, call, c.def, copyOf(uint64(dst), uint64(src), n))
	if err != nil {
		return err
	}
	if err := c.wait(call, p, waitForever); err != nil {
		return err
	}
	return c.libraryFailure(call)
}

// MemcpyDtoD is cuMemcpyDtoD on the default stream. It queues the copy and
// returns. Source and destination must not overlap (ErrInvalidValue).
func (c *Context) MemcpyDtoD(dst, src DevicePtr, n uint64) error {
	return c.copyDevice("cuMemcpyDtoD", dst, src, n, nil)
}

// MemcpyDtoDAsync is cuMemcpyDtoDAsync.
func (c *Context) MemcpyDtoDAsync(dst, src DevicePtr, n uint64, s *Stream) error {
	return c.copyDevice("cuMemcpyDtoDAsync", dst, src, n, s)
}

// MemcpyHtoDAsync is cuMemcpyHtoDAsync: it queues a copy of n bytes of pinned
// memory from off on.
func (c *Context) MemcpyHtoDAsync(dst DevicePtr, src *HostMem, off, n uint64, s *Stream) error {
	const call = "cuMemcpyHtoDAsync"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	from, err := c.span(call, src, off, n)
	if err != nil {
		return err
	}
	return c.queueCopy(call, dst, from, n, s)
}

// MemcpyDtoHAsync is cuMemcpyDtoHAsync: it queues a copy of n bytes to pinned
// memory from off on.
func (c *Context) MemcpyDtoHAsync(dst *HostMem, off uint64, src DevicePtr, n uint64, s *Stream) error {
	const call = "cuMemcpyDtoHAsync"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	to, err := c.span(call, dst, off, n)
	if err != nil {
		return err
	}
	return c.queueCopy(call, to, src, n, s)
}

func (c *Context) copyDevice(call string, dst, src DevicePtr, n uint64, s *Stream) error {
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	return c.queueCopy(call, dst, src, n, s)
}

func (c *Context) queueCopy(call string, dst, src DevicePtr, n uint64, s *Stream) error {
	s, err := c.pick(call, s)
	if err != nil || n == 0 {
		return err
	}
	if err := c.check(call, "destination", dst, n); err != nil {
		return err
	}
	if err := c.check(call, "source", src, n); err != nil {
		return err
	}
	if err := disjoint(call, uint64(dst), uint64(src), n); err != nil {
		return err
	}
	_, err = submit(c, call, s, copyOf(uint64(dst), uint64(src), n))
	return err
}

// disjoint refuses ranges that overlap: what such a copy does depends on the
// order in which the device moves bytes.
func disjoint(call string, a, b, n uint64) error {
	if a < b+n && b < a+n {
		return errorf(call, ErrInvalidValue, "source and destination, %d bytes at 0x%x and 0x%x, overlap; copy through other memory", n, b, a)
	}
	return nil
}

// Copy2D describes a copy of rows between memory that the device reaches:
// device memory, or pinned memory by its DevicePtr.
type Copy2D struct {
	Dst, Src           DevicePtr
	DstPitch, SrcPitch uint64 // bytes from row to row
	Width, Height      uint64 // bytes, rows
}

// Memcpy2D is cuMemcpy2DUnaligned on the default stream. It queues the copy.
func (c *Context) Memcpy2D(p Copy2D) error { return c.copy2D("cuMemcpy2D", p, nil) }

// Memcpy2DAsync is cuMemcpy2DAsync.
func (c *Context) Memcpy2DAsync(p Copy2D, s *Stream) error { return c.copy2D("cuMemcpy2DAsync", p, s) }

func (c *Context) copy2D(call string, p Copy2D, s *Stream) error {
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	s, err := c.pick(call, s)
	if err != nil || p.Width == 0 || p.Height == 0 {
		return err
	}
	dn, err := c.rows(call, "destination", p.Dst, p.DstPitch, p.Width, p.Height)
	if err != nil {
		return err
	}
	sn, err := c.rows(call, "source", p.Src, p.SrcPitch, p.Width, p.Height)
	if err != nil {
		return err
	}
	// Rows that lie between each other's would be fine but are not worth the
	// arithmetic: what spans both is refused.
	if uint64(p.Dst) < uint64(p.Src)+sn && uint64(p.Src) < uint64(p.Dst)+dn {
		return errorf(call, ErrInvalidValue, "source and destination overlap; copy through other memory")
	}
	_, err = submit(c, call, s, drm.CopyCmd{Dst: uint64(p.Dst), Src: uint64(p.Src),
		Width: p.Width, Height: p.Height, DstPitch: p.DstPitch, SrcPitch: p.SrcPitch})
	return err
}

// rows checks rows of memory and returns how many bytes they span.
func (c *Context) rows(call, what string, p DevicePtr, pitch, width, height uint64) (n uint64, err error) {
	if height > 1 && pitch < width {
		return 0, errorf(call, ErrInvalidValue, "%s: rows of %d bytes with a pitch of %d", what, width, pitch)
	}
	n, ok := product(pitch, height-1)
	if !ok || n+width < n {
		return 0, errorf(call, ErrInvalidValue, "%s: %d rows with a pitch of %d", what, height, pitch)
	}
	n += width
	return n, c.check(call, what, p, n)
}
