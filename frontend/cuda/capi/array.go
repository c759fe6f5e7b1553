package capi

import (
	"encoding/binary"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

// array is a CUarray: device memory with the layout of package texture.
type array struct {
	ctx   *context
	of    *mipmapped // whose level it is, or nil
	addr  cuda.DevicePtr
	place texture.Descriptor // shape, format and strides; of a surface, so that both fit
	desc  [arrayBytes3D]byte // CUDA_ARRAY3D_DESCRIPTOR as the program gave it
}

func (a *array) owner() *context { return a.ctx }

// Sizes of CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR.
const (
	arrayBytes2D = 24
	arrayBytes3D = 40
)

// Flags of CUDA_ARRAY3D_DESCRIPTOR. Those for surfaces, gathers and depth maps change
// nothing here: every array can be used so.
const (
	arrayLayered  = 1
	arrayCube     = 4
	arrayHarmless = 2 | 8 | 16 | 32
)

// formatOf are the formats by the numbers of CUarray_format.
var formatOf = map[uint32]texture.Format{
	1: texture.U8, 2: texture.U16, 3: texture.U32, 8: texture.S8, 9: texture.S16, 10: texture.S32, 0x10: texture.F16, 0x20: texture.F32,
}

// needTextures refuses what the device has no textures for.
func (c *call) needTextures(x *context) error {
	if !x.Device().Textures() {
		return c.fail(cuda.ErrNotSupported, "this device has no textures")
	}
	return nil
}

func arrayCreate(c *call) error {
	b, err := c.read(c.u64(1), arrayBytes2D)
	if err != nil {
		return err
	}
	var d [arrayBytes3D]byte
	copy(d[:16], b[:16])
	copy(d[24:], b[16:])
	return c.createArray(d)
}

func array3DCreate(c *call) error {
	b, err := c.read(c.u64(1), arrayBytes3D)
	if err != nil {
		return err
	}
	return c.createArray([arrayBytes3D]byte(b))
}

// createArray makes an array of a description and writes its handle to argument 0.
func (c *call) createArray(desc [arrayBytes3D]byte) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if err := c.needTextures(x); err != nil {
		return err
	}
	a := &array{ctx: x, desc: desc}
	if a.place, err = c.describeArray(desc[:]); err != nil {
		return err
	}
	n, err := a.place.Place()
	if err != nil {
		return c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	if a.addr, err = x.MemAlloc(n); err != nil {
		return err
	}
	a.place.Base = uint64(a.addr)
	h := c.lib.handles.add(a)
	return to.set(h)
}

// describeArray reads a CUDA_ARRAY3D_DESCRIPTOR.
func (c *call) describeArray(b []byte) (d texture.Descriptor, err error) {
	width, height, depth := le64(b), le64(b[8:]), le64(b[16:])
	format, channels, flags := le32(b[24:]), le32(b[28:]), le32(b[32:])
	d = texture.Descriptor{Surface: true, Format: formatOf[format], Channels: uint8(min(channels, 255)), Layered: flags&arrayLayered != 0}
	switch {
	case flags&^(arrayLayered|arrayCube|arrayHarmless) != 0:
		return d, c.fail(cuda.ErrNotSupported, "an array with flags 0x%x", flags)
	case !d.Format.Valid():
		return d, c.fail(cuda.ErrInvalidValue, "array format %d", format)
	case max(width, height, depth) > texture.MaxBuffer || width == 0:
		return d, c.fail(cuda.ErrInvalidValue, "an array of %d by %d by %d elements", width, height, depth)
	}
	d.Width, d.Height, d.Depth, d.Layers = uint32(width), uint32(max(height, 1)), 1, 1
	switch {
	case flags&arrayCube != 0:
		d.Shape, d.Layers = texture.ShapeCube, uint32(depth/6)
		if depth%6 != 0 || depth == 0 || !d.Layered && depth != 6 {
			return d, c.fail(cuda.ErrInvalidValue, "%d faces of cubes", depth)
		}
	case d.Layered:
		d.Shape, d.Layers = texture.Shape2D, uint32(depth)
	case depth != 0:
		d.Shape, d.Depth = texture.Shape3D, uint32(depth)
		if height == 0 {
			return d, c.fail(cuda.ErrInvalidValue, "an array with a depth and no height")
		}
	default:
		d.Shape = texture.Shape2D
	}
	if height == 0 && d.Shape == texture.Shape2D {
		d.Shape = texture.Shape1D
	}
	return d, nil
}

// arrayOf finds the array of a handle.
func (c *call) arrayOf(handle uint64) (*array, error) {
	a, ok := find[*array](c.lib, handle)
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no array", handle)
	}
	return a, nil
}

func arrayDestroy(c *call) error {
	a, err := c.arrayOf(c.u64(0))
	if err != nil {
		return err
	}
	if a.of != nil {
		return c.fail(cuda.ErrInvalidValue, "a level ends with its mipmapped array")
	}
	c.lib.handles.remove(c.u64(0))
	return c.settle(a.ctx, nil, func() error { return a.ctx.MemFree(a.addr) })
}

func arrayGetDescriptor(c *call) error {
	to, err := c.out(0, arrayBytes2D)
	if err != nil {
		return err
	}
	a, err := c.arrayOf(c.u64(1))
	if err != nil {
		return err
	}
	var b [arrayBytes2D]byte
	copy(b[:16], a.desc[:16])
	copy(b[16:], a.desc[24:32])
	return to.write(b[:])
}

func array3DGetDescriptor(c *call) error {
	to, err := c.out(0, arrayBytes3D)
	if err != nil {
		return err
	}
	a, err := c.arrayOf(c.u64(1))
	if err != nil {
		return err
	}
	return to.write(a.desc[:])
}

// part is the place of bytes in an array, from (x, y, z) on. X counts bytes.
func (c *call) part(a *array, x, y, z uint64, e extent) (place, error) {
	d := &a.place
	row := uint64(d.Width) * uint64(d.Format.Size()) * uint64(d.Channels)
	slices := binary.LittleEndian.Uint64(a.desc[16:])
	if x > row || e.width > row-x || y > uint64(d.Height) || e.height > uint64(d.Height)-y || z > max(slices, 1) || e.depth > max(slices, 1)-z {
		return place{}, c.fail(cuda.ErrInvalidValue, "%d bytes by %d by %d from (%d, %d, %d) on do not lie in the array", e.width, e.height, e.depth, x, y, z)
	}
	return place{addr: d.Base + z*d.Slice + y*d.Pitch + x, pitch: d.Pitch, slice: d.Slice}, nil
}

// arrayIn finds the array of a handle for a copy in a context, which must be its own: each
// context has GPU addresses of its own.
func (c *call) arrayIn(x *context, handle uint64) (*array, error) {
	a, err := c.arrayOf(handle)
	if err == nil && a.ctx != x {
		return nil, c.fail(cuda.ErrNotSupported, "a copy between two contexts")
	}
	return a, err
}

// arrayLine is the place of n bytes in the first row of the array in argument i, from the
// offset in the next argument on.
func (c *call) arrayLine(x *context, i, n int) (place, error) {
	a, err := c.arrayIn(x, c.u64(i))
	if err != nil {
		return place{}, err
	}
	return c.part(a, c.u64(i+1), 0, 0, extent{c.u64(n), 1, 1})
}

// toArray copies (array, offset, source, bytes) on a stream, by its argument or below 0
// the default stream.
func (c *call) toArray(src place, streamArg int) error {
	x, s, err := c.fillStream(streamArg)
	if err != nil {
		return err
	}
	dst, err := c.arrayLine(x, 0, 3)
	if err != nil {
		return err
	}
	return c.line(x, s, dst, src, c.u64(3), streamArg >= 0)
}

// fromArray copies (destination, array, offset, bytes).
func (c *call) fromArray(dst place, streamArg int) error {
	x, s, err := c.fillStream(streamArg)
	if err != nil {
		return err
	}
	src, err := c.arrayLine(x, 1, 3)
	if err != nil {
		return err
	}
	return c.line(x, s, dst, src, c.u64(3), streamArg >= 0)
}

func memcpyHtoA(c *call) error      { return c.toArray(host(c.u64(2)), -1) }
func memcpyDtoA(c *call) error      { return c.toArray(device(c.u64(2)), -1) }
func memcpyHtoAAsync(c *call) error { return c.toArray(host(c.u64(2)), 4) }
func memcpyAtoH(c *call) error      { return c.fromArray(host(c.u64(0)), -1) }
func memcpyAtoD(c *call) error      { return c.fromArray(device(c.u64(0)), -1) }
func memcpyAtoHAsync(c *call) error { return c.fromArray(host(c.u64(0)), 4) }

// memcpyAtoA copies (array, offset, array, offset, bytes).
func memcpyAtoA(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	dst, err := c.arrayLine(x, 0, 4)
	if err != nil {
		return err
	}
	src, err := c.arrayLine(x, 2, 4)
	if err != nil {
		return err
	}
	return c.line(x, x.DefaultStream(), dst, src, c.u64(4), false)
}
