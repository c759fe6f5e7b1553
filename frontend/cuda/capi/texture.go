package capi

import (
	"math"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

// object is a texture or surface object. Its handle is the address of its descriptor in
// device memory, which kernels read.
type object struct {
	surface  bool
	resource [resourceBytes]byte // CUDA_RESOURCE_DESC
	texture  [textureBytes]byte  // CUDA_TEXTURE_DESC
	view     []byte              // CUDA_RESOURCE_VIEW_DESC, if the program gave one
}

// Sizes of CUDA_RESOURCE_DESC and CUDA_TEXTURE_DESC, and the values of CUresourcetype.
const (
	resourceBytes = 144
	textureBytes  = 104

	resourceArray     = 0
	resourceMipmapped = 1
	resourceLinear    = 2
	resourcePitch2D   = 3
)

// Flags of CUDA_TEXTURE_DESC.
const (
	readAsInteger    = 1
	normalizedCoords = 2
	colourSRGB       = 0x10
	noTrilinear      = 0x20 // a hint
	seamlessCubes    = 0x40
)

// Alignments of textures in plain memory: of its address, as cuMemAlloc aligns, and
// of its rows.
const (
	textureAlign = 256
	pitchAlign   = 32
)

func texObjectCreate(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if err := c.needTextures(x); err != nil {
		return err
	}
	var o object
	d, desc, err := c.resource(x, &o)
	if err != nil {
		return err
	}
	d.Surface = false
	if c.u64(3) != 0 {
		if desc == nil {
			return c.fail(cuda.ErrInvalidValue, "a view of what is no array")
		}
		if o.view, err = c.view(c.u64(3), &d, desc); err != nil {
			return err
		}
	}
	b, err := c.read(c.u64(2), textureBytes)
	if err != nil {
		return err
	}
	copy(o.texture[:], b)
	if err := c.sampler(&d, b); err != nil {
		return err
	}
	return c.createObject(to, x, &o, &d)
}

func surfObjectCreate(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if err := c.needTextures(x); err != nil {
		return err
	}
	o := object{surface: true}
	d, _, err := c.resource(x, &o)
	if err != nil {
		return err
	}
	if le32(o.resource[:]) != resourceArray {
		return c.fail(cuda.ErrInvalidValue, "a surface needs an array")
	}
	return c.createObject(to, x, &o, &d)
}

// createObject writes a descriptor to device memory, and its address to the program.
func (c *call) createObject(to out, x *context, o *object, d *texture.Descriptor) error {
	if err := d.Check(); err != nil {
		return c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	var raw [texture.Size]byte
	d.Encode(&raw)
	p, err := x.MemAlloc(texture.Size)
	if err != nil {
		return err
	}
	if err := x.MemcpyHtoD(p, raw[:]); err != nil {
		return err
	}
	x.mu.Lock()
	x.objects[uint64(p)] = o
	x.mu.Unlock()
	return to.set(uint64(p))
}

// resource reads the CUDA_RESOURCE_DESC in argument 1. Desc is the CUDA_ARRAY3D_DESCRIPTOR
// of an array.
func (c *call) resource(x *context, o *object) (d texture.Descriptor, desc []byte, err error) {
	b, err := c.read(c.u64(1), resourceBytes)
	if err != nil {
		return d, nil, err
	}
	copy(o.resource[:], b)
	return c.described(x, b)
}

// described is resource for a CUDA_RESOURCE_DESC that is read already. With a context, what it says
// must be of that.
func (c *call) described(x *context, b []byte) (d texture.Descriptor, desc []byte, err error) {
	var owner *context
	switch kind := le32(b); kind {
	case resourceArray:
		a, err := c.arrayOf(le64(b[8:]))
		if err != nil {
			return d, nil, err
		}
		d, desc, owner = a.place, a.desc[:], a.ctx
	case resourceMipmapped:
		m, err := c.mipmappedOf(le64(b[8:]))
		if err != nil {
			return d, nil, err
		}
		d, desc, owner = m.place, m.desc[:], m.ctx
	case resourceLinear, resourcePitch2D:
		d, err = c.memory(x, b)
		return d, nil, err
	default:
		return d, nil, c.fail(cuda.ErrInvalidValue, "a resource of type %d", kind)
	}
	if x != nil && owner != x {
		return d, nil, c.fail(cuda.ErrInvalidValue, "the array is of another context")
	}
	return d, desc, nil
}

// memory reads the CUDA_RESOURCE_DESC of plain memory.
func (c *call) memory(x *context, b []byte) (d texture.Descriptor, err error) {
	d = texture.Descriptor{Format: formatOf[le32(b[16:])], Channels: uint8(min(le32(b[20:]), 255)), Base: le64(b[8:]), Height: 1, Depth: 1, Layers: 1}
	if !d.Format.Valid() || d.Channels == 0 || d.Base%textureAlign != 0 {
		return d, c.fail(cuda.ErrInvalidValue, "memory at 0x%x with format %d and %d channels", d.Base, le32(b[16:]), d.Channels)
	}
	size := le64(b[24:]) / (uint64(d.Format.Size()) * uint64(d.Channels))
	if le32(b) == resourceLinear {
		d.Shape, d.Width = texture.ShapeBuffer, uint32(min(size, math.MaxUint32))
	} else {
		width, height, pitch := le64(b[24:]), le64(b[32:]), le64(b[40:])
		if width > texture.MaxWidth || height > texture.MaxHeight || pitch%pitchAlign != 0 {
			return d, c.fail(cuda.ErrInvalidValue, "%d by %d elements with a pitch of %d", width, height, pitch)
		}
		d.Shape, d.Width, d.Height, d.Pitch = texture.Shape2D, uint32(width), uint32(height), pitch
	}
	if err := d.Check(); err != nil {
		return d, c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	base, n, err := x.MemGetAddressRange(cuda.DevicePtr(d.Base))
	if off := d.Base - uint64(base); err != nil || off > n || d.Bytes() > n-off {
		return d, c.fail(cuda.ErrInvalidValue, "%d bytes at 0x%x are not memory of the device", d.Bytes(), d.Base)
	}
	return d, nil
}

// sampler reads a CUDA_TEXTURE_DESC into a descriptor.
func (c *call) sampler(d *texture.Descriptor, b []byte) error {
	flags, filter := le32(b[16:]), le32(b[12:])
	if flags >= seamlessCubes<<1 { // NVIDIA's libcuda ignores the unused ones of those below
		return c.fail(cuda.ErrInvalidValue, "texture flags 0x%x", flags)
	}
	if d.Seamless = flags&seamlessCubes != 0; d.Seamless && d.Shape != texture.ShapeCube {
		return c.fail(cuda.ErrInvalidValue, "a seamless filter of what is no cube")
	}
	if filter > 1 {
		return c.fail(cuda.ErrInvalidValue, "filter mode %d", filter)
	}
	d.Floats = flags&readAsInteger == 0 && d.Format.Normalizes()
	if d.SRGB = flags&colourSRGB != 0; d.SRGB && (d.Format != texture.U8 || !d.Floats) {
		return c.fail(cuda.ErrNotSupported, "sRGB of what are no bytes that are read as numbers")
	}
	if d.Levels != 0 {
		d.Aniso, d.LinearMip = le32(b[20:]) > 1, le32(b[24:]) == 1
		d.Bias, d.MinLevel, d.MaxLevel = float32At(b[28:]), float32At(b[32:]), float32At(b[36:])
		if mode := le32(b[24:]); mode > 1 {
			return c.fail(cuda.ErrInvalidValue, "mipmap filter mode %d", mode)
		}
	}
	if d.Shape == texture.ShapeBuffer {
		return nil // fetches by whole numbers have no more
	}
	d.Normalized, d.Linear = flags&normalizedCoords != 0, filter == 1
	for n := range d.Address {
		mode := le32(b[4*n:])
		if mode > uint32(texture.Border) {
			return c.fail(cuda.ErrInvalidValue, "address mode %d", mode)
		}
		d.Address[n] = texture.Mode(mode)
	}
	for n := range d.Border {
		d.Border[n] = float32At(b[40+4*n:])
	}
	return nil
}

func float32At(b []byte) float32 { return math.Float32frombits(le32(b)) }

// objectOf finds the object in argument i, of the current context.
func (c *call) objectOf(i int, surface bool) (*context, *object, error) {
	x, err := c.current()
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if o := x.objects[c.u64(i)]; o != nil && o.surface == surface {
		return x, o, nil
	}
	return nil, nil, c.fail(cuda.ErrInvalidValue, "0x%x is no such object", c.u64(i))
}

func texObjectDestroy(c *call) error  { return c.destroyObject(false) }
func surfObjectDestroy(c *call) error { return c.destroyObject(true) }

func (c *call) destroyObject(surface bool) error {
	x, _, err := c.objectOf(0, surface)
	if err != nil {
		return err
	}
	x.mu.Lock()
	delete(x.objects, c.u64(0))
	x.mu.Unlock()
	return c.settle(x, nil, func() error { return x.MemFree(c.devicePtr(0)) })
}

func texObjectGetResourceDesc(c *call) error  { return c.objectResource(false) }
func surfObjectGetResourceDesc(c *call) error { return c.objectResource(true) }

func (c *call) objectResource(surface bool) error {
	to, err := c.out(0, resourceBytes)
	if err != nil {
		return err
	}
	_, o, err := c.objectOf(1, surface)
	if err != nil {
		return err
	}
	return to.write(o.resource[:])
}

func texObjectGetResourceViewDesc(c *call) error {
	to, err := c.out(0, viewBytes)
	if err != nil {
		return err
	}
	_, o, err := c.objectOf(1, false)
	if err != nil {
		return err
	}
	if o.view == nil {
		return c.fail(cuda.ErrInvalidValue, "the texture was made without a view")
	}
	return to.write(o.view)
}

func texObjectGetTextureDesc(c *call) error {
	to, err := c.out(0, textureBytes)
	if err != nil {
		return err
	}
	_, o, err := c.objectOf(1, false)
	if err != nil {
		return err
	}
	return to.write(o.texture[:])
}

// textureLimits are the attributes MAXIMUM_TEXTURE… and MAXIMUM_SURFACE…: what package
// texture takes.
var textureLimits = map[int]int{
	21: texture.MaxWidth,                        // 1D
	22: texture.MaxWidth, 23: texture.MaxHeight, // 2D
	24: texture.MaxExtent3D, 25: texture.MaxExtent3D, 26: texture.MaxExtent3D,
	27: texture.MaxLayered, 28: texture.MaxLayered, 29: texture.MaxLayers, // layered 2D
	42: texture.MaxLayered, 43: texture.MaxLayers, // layered 1D
	45: texture.MaxLayered, 46: texture.MaxLayered, // gathers
	52: texture.MaxLayered,                                // cubes
	53: texture.MaxLayered, 54: texture.MaxLayers / 6 * 6, // layered cubes
	55: texture.MaxWidth, // surfaces
	56: texture.MaxWidth, 57: texture.MaxHeight,
	58: texture.MaxExtent3D, 59: texture.MaxExtent3D, 60: texture.MaxExtent3D,
	61: texture.MaxLayered, 62: texture.MaxLayers,
	63: texture.MaxLayered, 64: texture.MaxLayered, 65: texture.MaxLayers,
	66: texture.MaxLayered,
	67: texture.MaxLayered, 68: texture.MaxLayers / 6 * 6,
	69: texture.MaxBuffer,                       // linear memory
	70: texture.MaxWidth, 71: texture.MaxHeight, // memory with a pitch
	72: 1<<31 - pitchAlign,
	73: texture.MaxMipmap, 74: texture.MaxMipmap, // mipmaps
	77: texture.MaxMipmap,
}
