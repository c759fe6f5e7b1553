package capi

import (
	"errors"
	"math"
	"math/bits"

	"pvdrm/frontend/cuda"
)

// place is one end of a copy of rows: memory of the device, or of the program.
type place struct {
	host  bool
	addr  uint64
	pitch uint64 // bytes from row to row
	slice uint64 // bytes from layer to layer
}

// locate says whether an address of cuMemcpy is one of the device, in a context or another one.
func (c *call) locate(x *context, addr uint64) place {
	_, _, err := x.MemGetAddressRange(cuda.DevicePtr(addr))
	if err != nil {
		if has, found := c.ofMemory(addr); found == nil && has != x {
			_, _, err = has.MemGetAddressRange(cuda.DevicePtr(addr))
		}
	}
	return place{host: err != nil, addr: addr}
}

// line copies n bytes in a row. Queued says that the program need not wait for
// the copy; from or to memory that is not pinned it waits all the same.
func (c *call) line(x *context, s *cuda.Stream, dst, src place, n uint64, queued bool) error {
	return c.settle(x, s, func() error {
		return c.copyRows(x, s, dst, src, extent{n, 1, 1}, queued)
	})
}

func device(addr uint64) place { return place{addr: addr} }
func host(addr uint64) place   { return place{host: true, addr: addr} }

func memcpy(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	return c.synchronous(c.locate(x, c.u64(0)), c.locate(x, c.u64(1)))
}

func memcpyAsync(c *call) error {
	x, _, err := c.stream(3)
	if err != nil {
		return err
	}
	return c.asynchronous(c.locate(x, c.u64(0)), c.locate(x, c.u64(1)))
}

// synchronous copies arguments (dst, src, bytes) on the default stream of the context that has the
// memory.
func (c *call) synchronous(dst, src place) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	return c.inContexts(x, dst, src, func(x *context) error {
		return c.line(x, x.DefaultStream(), dst, src, c.u64(2), false)
	})
}

// asynchronous copies arguments (dst, src, bytes, stream). A copy to or from memory of another
// context than the stream's is waited for.
func (c *call) asynchronous(dst, src place) error {
	x, s, err := c.stream(3)
	if err != nil {
		return err
	}
	return c.inContexts(x, dst, src, func(has *context) error {
		if has == x {
			return c.line(x, s, dst, src, c.u64(2), true)
		}
		if err := c.settle(x, s, s.Synchronize); err != nil {
			return err
		}
		err := c.line(has, has.DefaultStream(), dst, src, c.u64(2), false)
		return errors.Join(err, has.DefaultStream().Synchronize()) // before what comes later on the stream
	})
}

func memcpyHtoD(c *call) error      { return c.synchronous(device(c.u64(0)), host(c.u64(1))) }
func memcpyDtoH(c *call) error      { return c.synchronous(host(c.u64(0)), device(c.u64(1))) }
func memcpyDtoD(c *call) error      { return c.synchronous(device(c.u64(0)), device(c.u64(1))) }
func memcpyHtoDAsync(c *call) error { return c.asynchronous(device(c.u64(0)), host(c.u64(1))) }
func memcpyDtoHAsync(c *call) error { return c.asynchronous(host(c.u64(0)), device(c.u64(1))) }
func memcpyDtoDAsync(c *call) error { return c.asynchronous(device(c.u64(0)), device(c.u64(1))) }

// extent is the size of a copy: bytes, rows, layers.
type extent struct{ width, height, depth uint64 }

func (e extent) empty() bool { return e.width == 0 || e.height == 0 || e.depth == 0 }

// Layouts of CUDA_MEMCPY2D and CUDA_MEMCPY3D: offsets of the fields of one end.
type endLayout struct{ x, y, z, kind, host, device, array, pitch, height int }

const (
	copy2DBytes = 128
	copy3DBytes = 200
)

var (
	copy2DSrc = endLayout{x: 0, y: 8, z: -1, kind: 16, host: 24, device: 32, array: 40, pitch: 48, height: -1}
	copy2DDst = endLayout{x: 56, y: 64, z: -1, kind: 72, host: 80, device: 88, array: 96, pitch: 104, height: -1}
	copy3DSrc = endLayout{x: 0, y: 8, z: 16, kind: 32, host: 40, device: 48, array: 56, pitch: 72, height: 80}
	copy3DDst = endLayout{x: 88, y: 96, z: 104, kind: 120, host: 128, device: 136, array: 144, pitch: 160, height: 168}
)

// endOf reads one end of a copy.
func (c *call) endOf(x *context, b []byte, l endLayout, e extent) (place, error) {
	field := func(at int) uint64 {
		if at < 0 {
			return 0
		}
		return le64(b[at:])
	}
	var p place
	switch kind := le32(b[l.kind:]); kind {
	case memoryHost:
		p = host(field(l.host))
	case memoryDevice:
		p = device(field(l.device))
	case memoryUnified:
		p = c.locate(x, field(l.device))
	case memoryArray:
		a, err := c.arrayIn(x, field(l.array))
		if err != nil {
			return p, err
		}
		return c.part(a, field(l.x), field(l.y), field(l.z), e)
	default:
		return p, c.fail(cuda.ErrInvalidValue, "memory type %d", kind)
	}
	if p.pitch = field(l.pitch); p.pitch == 0 {
		p.pitch = e.width // one row, or rows without a gap
	}
	rows := field(l.height)
	if rows == 0 {
		rows = e.height
	}
	over, slice := bits.Mul64(p.pitch, rows)
	if over != 0 || e.height > 1 && p.pitch < field(l.x)+e.width || field(l.x) > math.MaxInt64-e.width || e.depth > 1 && rows < e.height {
		return p, c.fail(cuda.ErrInvalidValue, "rows of %d bytes, %d of them, with a pitch of %d", e.width, e.height, p.pitch)
	}
	p.slice = slice
	o1, y := bits.Mul64(field(l.y), p.pitch)
	o2, z := bits.Mul64(field(l.z), slice)
	off, c1 := bits.Add64(y, z, 0)
	off, c2 := bits.Add64(off, field(l.x), 0)
	_, c3 := bits.Add64(off, p.addr, 0)
	if o1|o2|c1|c2|c3 != 0 {
		return p, c.fail(cuda.ErrInvalidValue, "the copy begins outside of all memory")
	}
	p.addr += off
	return p, nil
}

func memcpy2D(c *call) error      { return c.copyStruct(copy2DBytes, -1) }
func memcpy2DAsync(c *call) error { return c.copyStruct(copy2DBytes, 1) }
func memcpy3D(c *call) error      { return c.copyStruct(copy3DBytes, -1) }
func memcpy3DAsync(c *call) error { return c.copyStruct(copy3DBytes, 1) }

// noLevels refuses the levels that CUDA_MEMCPY3D names: they must be 0, since a level of a
// mipmapped array is an array.
func (c *call) noLevels(b []byte) error {
	if src, dst := le64(b[24:]), le64(b[112:]); src|dst != 0 {
		return c.fail(cuda.ErrInvalidValue, "a copy of level %d to level %d", src, dst)
	}
	return nil
}

// copyStruct copies what the struct in argument 0 says, on the stream in another
// argument or, below 0, on the default stream.
func (c *call) copyStruct(n, streamArg int) error {
	b, err := c.read(c.u64(0), n)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	s := x.DefaultStream()
	if streamArg >= 0 {
		if x, s, err = c.stream(streamArg); err != nil {
			return err
		}
	}
	e := extent{le64(b[112:]), le64(b[120:]), 1}
	from, to := copy2DSrc, copy2DDst
	if n == copy3DBytes {
		if err := c.noLevels(b); err != nil {
			return err
		}
		e = extent{le64(b[176:]), le64(b[184:]), le64(b[192:])}
		from, to = copy3DSrc, copy3DDst
	}
	if e.width == 0 || e.height == 0 || e.depth == 0 {
		return nil
	}
	src, err := c.endOf(x, b, from, e)
	if err != nil {
		return err
	}
	dst, err := c.endOf(x, b, to, e)
	if err != nil {
		return err
	}
	return c.box(x, s, dst, src, e, streamArg >= 0)
}

// span is how many bytes a place takes from its first to its last.
func (p place) span(e extent) (uint64, bool) {
	o1, z := bits.Mul64(p.slice, e.depth-1)
	o2, y := bits.Mul64(p.pitch, e.height-1)
	n, c1 := bits.Add64(z, y, 0)
	n, c2 := bits.Add64(n, e.width, 0)
	_, c3 := bits.Add64(n, p.addr, 0)
	return n, o1|o2|c1|c2|c3 == 0
}

// pin turns memory of the program that is pinned into memory of the device.
func (c *call) pin(x *context, p place, n uint64) place {
	if h, off := x.HostMemAt(p.addr, n); p.host && h != nil {
		p.host, p.addr = false, uint64(h.DevicePtr())+off
	}
	return p
}

// copyRows copies rows between places.
func (c *call) copyRows(x *context, s *cuda.Stream, dst, src place, e extent, queued bool) error {
	if e.width == 0 {
		return nil
	}
	for _, p := range []*place{&dst, &src} {
		n, ok := p.span(e)
		if !ok {
			return c.fail(cuda.ErrInvalidValue, "the copy ends outside of all memory")
		}
		if p.host && p.addr == 0 {
			return c.fail(cuda.ErrInvalidValue, "the copy is from or to a null pointer")
		}
		if h, _ := x.HostMemAt(p.addr, 1); p.host && h != nil && h.Registered() {
			if in, _ := x.HostMemAt(p.addr, n); in == nil {
				return c.fail(cuda.ErrInvalidValue, "%d bytes at 0x%x go beyond the end of registered memory", n, p.addr)
			}
			if p == &dst && h.ReadOnly() {
				continue // the program may write there
			}
		}
		*p = c.pin(x, *p, n)
	}
	if !dst.host && !src.host {
		for z := range e.depth {
			if err := x.copyPlane(s, dst, src, e, z); err != nil {
				return err
			}
		}
		if queued || !pinned(x, dst) && !pinned(x, src) && !x.waitsForMemory() {
			return nil
		}
		return s.Synchronize()
	}
	// Pageable memory: what was queued before comes first, and the program waits.
	if err := s.Synchronize(); err != nil {
		return err
	}
	if err := c.pageable(x, dst, src, e); err != nil {
		return err
	}
	if s == x.DefaultStream() {
		return nil // what comes later on any stream waits for it
	}
	return x.DefaultStream().Synchronize()
}

// pinned says whether a copy is from or to memory that the program may change or
// read as soon as the call returns.
func pinned(x *context, p place) bool {
	return x.PinnedDevicePtr(cuda.DevicePtr(p.addr))
}

func (c *context) copyPlane(s *cuda.Stream, dst, src place, e extent, z uint64) error {
	d, r := cuda.DevicePtr(dst.addr+z*dst.slice), cuda.DevicePtr(src.addr+z*src.slice)
	if e.height == 1 {
		return c.MemcpyDtoDAsync(d, r, e.width, s)
	}
	return c.Memcpy2DAsync(cuda.Copy2D{Dst: d, Src: r, DstPitch: dst.pitch, SrcPitch: src.pitch, Width: e.width, Height: e.height}, s)
}

// maxBounce is the most pinned memory through which rows are copied, bytes.
const maxBounce = 4 << 20

// pageable copies with at least one place in memory that the device does not reach.
func (c *call) pageable(x *context, dst, src place, e extent) error {
	mem := c.lib.cfg.Memory
	if e.height == 1 && e.depth == 1 {
		switch {
		case !dst.host:
			return x.MemcpyFrom(cuda.DevicePtr(dst.addr), hostRange{mem, src.addr}, e.width)
		case !src.host:
			return x.MemcpyTo(hostRange{mem, dst.addr}, cuda.DevicePtr(src.addr), e.width)
		}
	}
	if dst.host && src.host {
		return c.eachRow(e, func(y, z uint64) error {
			return c.hostCopy(dst.addr+y*dst.pitch+z*dst.slice, src.addr+y*src.pitch+z*src.slice, e.width)
		})
	}
	// As many rows at a time as fit, side by side in pinned memory.
	rows := min(e.height, max(1, maxBounce/e.width))
	h, err := x.MemAllocHost(rows * e.width)
	if err != nil {
		return err
	}
	bounce := place{addr: uint64(h.DevicePtr()), pitch: e.width}
	err = func() error {
		for z := range e.depth {
			for y := uint64(0); y < e.height; y += rows {
				if err := c.bounce(x, h, bounce, dst, src, extent{e.width, min(rows, e.height-y), 1}, y, z); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	if ferr := h.Free(); err == nil {
		err = ferr
	}
	return err
}

// bounce copies some rows of a layer through pinned memory.
func (c *call) bounce(x *context, h *cuda.HostMem, via, dst, src place, e extent, y, z uint64) error {
	mem, s := c.lib.cfg.Memory, x.DefaultStream()
	dst.addr += y*dst.pitch + z*dst.slice
	src.addr += y*src.pitch + z*src.slice
	if src.host {
		for r := range e.height {
			if err := mem.Read(h.Bytes()[r*e.width:][:e.width], src.addr+r*src.pitch); err != nil {
				return err
			}
		}
		if err := x.copyPlane(s, dst, via, e, 0); err != nil {
			return err
		}
		return s.Synchronize()
	}
	if err := x.copyPlane(s, via, src, e, 0); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	for r := range e.height {
		if err := mem.Write(dst.addr+r*dst.pitch, h.Bytes()[r*e.width:][:e.width]); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) eachRow(e extent, do func(y, z uint64) error) error {
	for z := range e.depth {
		for y := range e.height {
			if err := do(y, z); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostCopy copies from the program to the program.
func (c *call) hostCopy(dst, src, n uint64) error {
	b := make([]byte, min(n, maxBounce))
	for n > 0 {
		part := b[:min(n, uint64(len(b)))]
		if err := c.lib.cfg.Memory.Read(part, src); err != nil {
			return err
		}
		if err := c.lib.cfg.Memory.Write(dst, part); err != nil {
			return err
		}
		m := uint64(len(part))
		dst, src, n = dst+m, src+m, n-m
	}
	return nil
}

func memsetD8(c *call) error  { return c.memset(-1, 1) }
func memsetD16(c *call) error { return c.memset(-1, 2) }
func memsetD32(c *call) error { return c.memset(-1, 4) }

func memsetD8Async(c *call) error  { return c.memset(3, 1) }
func memsetD16Async(c *call) error { return c.memset(3, 2) }
func memsetD32Async(c *call) error { return c.memset(3, 4) }

// memset fills (dst, value, count) on the stream in an argument or, below 0, on
// the default stream. Memory of the program counts if it is pinned.
func (c *call) memset(streamArg, element int) error {
	x, s, err := c.fillStream(streamArg)
	if err != nil {
		return err
	}
	over, n := bits.Mul64(c.u64(2), uint64(element))
	if over != 0 {
		return c.fail(cuda.ErrInvalidValue, "%d elements", c.u64(2))
	}
	p := cuda.DevicePtr(c.pin(x, host(c.u64(0)), max(n, 1)).addr)
	return c.fill(x, s, streamArg, p, func() error {
		switch element {
		case 1:
			return x.MemsetD8Async(p, byte(c.u32(1)), c.u64(2), s)
		case 2:
			return x.MemsetD16Async(p, uint16(c.u32(1)), c.u64(2), s)
		}
		return x.MemsetD32Async(p, c.u32(1), c.u64(2), s)
	})
}

func memsetD2D8(c *call) error  { return c.memset2D(-1, 1) }
func memsetD2D16(c *call) error { return c.memset2D(-1, 2) }
func memsetD2D32(c *call) error { return c.memset2D(-1, 4) }

func memsetD2D8Async(c *call) error  { return c.memset2D(5, 1) }
func memsetD2D16Async(c *call) error { return c.memset2D(5, 2) }
func memsetD2D32Async(c *call) error { return c.memset2D(5, 4) }

// memset2D fills (dst, pitch, value, width, height).
func (c *call) memset2D(streamArg, element int) error {
	x, s, err := c.fillStream(streamArg)
	if err != nil {
		return err
	}
	p := cuda.DevicePtr(c.pin(x, host(c.u64(0)), 1).addr)
	pitch, v, w, h := c.u64(1), c.u32(2), c.u64(3), c.u64(4)
	return c.fill(x, s, streamArg, p, func() error {
		switch element {
		case 1:
			return x.MemsetD2D8Async(p, pitch, byte(v), w, h, s)
		case 2:
			return x.MemsetD2D16Async(p, pitch, uint16(v), w, h, s)
		}
		return x.MemsetD2D32Async(p, pitch, v, w, h, s)
	})
}

// fill queues a fill. One without a stream waits where the program can look at
// once; on the device nothing that comes later can.
func (c *call) fill(x *context, s *cuda.Stream, streamArg int, p cuda.DevicePtr, queue func() error) error {
	return c.settle(x, s, func() error {
		if err := queue(); err != nil || streamArg < 0 && !x.PinnedDevicePtr(p) && !x.waitsForMemory() {
			return err
		}
		if streamArg >= 0 {
			if _, own, err := c.stream(streamArg); err != nil || own == s {
				return err
			}
		}
		return s.Synchronize()
	})
}

// fillStream finds the stream of a fill. That of memory of another context than the stream's is the
// default one there, when what is queued on the stream is done.
func (c *call) fillStream(arg int) (*context, *cuda.Stream, error) {
	if arg >= 0 {
		x, s, err := c.stream(arg)
		if err != nil || x.has(c.u64(0)) {
			return x, s, err
		}
		other, err := c.ofMemory(c.u64(0))
		if err != nil || other == x || !other.has(c.u64(0)) {
			return x, s, nil // to be refused there
		}
		return other, other.DefaultStream(), c.settle(x, s, s.Synchronize)
	}
	x, err := c.current()
	if err == nil {
		x, err = c.ofMemory(c.u64(0))
	}
	if err != nil {
		return nil, nil, err
	}
	return x, x.DefaultStream(), nil
}
