package main

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/tests/ptx/internal/fixture"
)

// objects is the part of the driver interface that makes textures and surfaces.
type objects struct {
	arrayCreate   func(array *uintptr, desc *arrayDesc) int32
	arrayDestroy  func(array uintptr) int32
	mipmapCreate  func(array *uintptr, desc *arrayDesc, levels uint32) int32
	mipmapDestroy func(array uintptr) int32
	mipmapLevel   func(level *uintptr, array uintptr, n uint32) int32
	copy3D        func(c *copy3D) int32
	texCreate     func(object *uint64, resource *resourceDesc, tex *textureDesc, view unsafe.Pointer) int32
	texDestroy    func(object uint64) int32
	surfCreate    func(object *uint64, resource *resourceDesc) int32
	surfDestroy   func(object uint64) int32
}

// load finds the functions in libcuda.
func (o *objects) load(lib uintptr) {
	for name, fn := range map[string]any{
		"cuArray3DCreate_v2": &o.arrayCreate, "cuArrayDestroy": &o.arrayDestroy,
		"cuMipmappedArrayCreate": &o.mipmapCreate, "cuMipmappedArrayDestroy": &o.mipmapDestroy, "cuMipmappedArrayGetLevel": &o.mipmapLevel,
		"cuMemcpy3D_v2": &o.copy3D, "cuTexObjectCreate": &o.texCreate, "cuTexObjectDestroy": &o.texDestroy,
		"cuSurfObjectCreate": &o.surfCreate, "cuSurfObjectDestroy": &o.surfDestroy,
	} {
		purego.RegisterLibFunc(fn, lib, name)
	}
}

// arrayDesc is CUDA_ARRAY3D_DESCRIPTOR.
type arrayDesc struct {
	width, height, depth    uint64
	format, channels, flags uint32
	_                       uint32
}

// Flags of arrays, and of texture objects.
const (
	arrayLayered, arraySurface, arrayCube, arrayGather  = 1, 2, 4, 8       // CUDA_ARRAY3D_*
	texIntegers, texNormalized, texSRGB, texNoTrilinear = 1, 2, 0x10, 0x20 // CU_TRSF_*
	texSeamless                                         = 0x40
	resArray, resMipmap, resLinear, resPitch            = 0, 1, 2, 3           // CU_RESOURCE_TYPE_*
	memHost, memArray                                   = uint32(1), uint32(3) // CU_MEMORYTYPE_*
	pitchAlign                                          = 512
)

// place is one end of a copy3D. Copies begin at its first byte.
type place struct {
	_             [4]uint64 // x in bytes, y, z, level
	memory        uint32
	_             uint32
	host          unsafe.Pointer
	_             uint64 // an address on the device
	array         uintptr
	_             uint64
	pitch, height uint64
}

// copy3D is CUDA_MEMCPY3D.
type copy3D struct {
	from, to             place
	bytes, height, depth uint64
}

// resourceDesc is CUDA_RESOURCE_DESC. An array is words[0]. Memory is an address, then the
// format and the channels in one word, then its size, or its width, height and pitch.
type resourceDesc struct {
	kind  uint32
	_     uint32
	words [16]uint64
	_     [2]uint32 // flags
}

// textureDesc is CUDA_TEXTURE_DESC.
type textureDesc struct {
	address           [3]uint32
	filter            uint32
	flags             uint32
	_                 uint32 // most anisotropy
	mipFilter         uint32
	bias, least, most float32
	border            [4]float32
	_                 [12]int32
}

// setFlags sets the filters and flags.
func (d *textureDesc) setFlags(o *fixture.Object, class fixture.Class) {
	set := func(on bool, word *uint32, bits uint32) {
		if on {
			*word |= bits
		}
	}
	set(o.Linear, &d.filter, 1)
	set(o.LinearMip, &d.mipFilter, 1)
	set(o.Normalized, &d.flags, texNormalized)
	set(!o.Floats && class != fixture.Float, &d.flags, texIntegers)
	set(o.SRGB, &d.flags, texSRGB)
	set(o.Exact, &d.flags, texNoTrilinear)
	set(o.Seamless, &d.flags, texSeamless)
}

// formatOf is CUarray_format.
func formatOf(t fixture.Type) uint32 {
	size := map[int]uint32{8: 0, 16: 1, 32: 2}[t.Bits]
	switch t.Class {
	case fixture.Float:
		return 0x10 * size // half and float
	case fixture.Signed:
		return 8 + size
	}
	return 1 + size
}

// object is what was made for a texture or surface.
type object struct {
	handle uint64
	levels []uintptr // the arrays of the levels
	memory uint64    // instead of an array
	free   []func()
}

// close frees what was made, the last first.
func (o *object) close() {
	for n := len(o.free) - 1; n >= 0; n-- {
		o.free[n]()
	}
}

// makeObject makes a texture or surface with its contents.
func (c *cuda) makeObject(b *fixture.Buffer) (made *object, err error) {
	made = &object{}
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	o, resource := b.Object, resourceDesc{}
	data := b.Initial()
	if o.Kind.Memory {
		err = c.linear(b, made, data, &resource)
	} else {
		if err = c.arrays(b, made, &resource); err == nil {
			err = c.copyLevels(b, made, data, true)
		}
	}
	if err != nil {
		return made, err
	}
	if o.Surface {
		if err = c.check("cuSurfObjectCreate", c.surfCreate(&made.handle, &resource)); err == nil {
			made.free = append(made.free, func() { c.surfDestroy(made.handle) })
		}
		return made, err
	}
	d := textureDesc{border: o.Border, bias: o.Bias, least: o.MinLevel, most: o.MaxLevel}
	for n, m := range o.Address {
		d.address[n] = uint32(m)
	}
	d.setFlags(o, b.Columns[0].Type.Class)
	if err = c.check("cuTexObjectCreate", c.texCreate(&made.handle, &resource, &d, nil)); err == nil {
		made.free = append(made.free, func() { c.texDestroy(made.handle) })
	}
	return made, err
}

// linear makes linear memory or memory with a pitch.
func (c *cuda) linear(b *fixture.Buffer, made *object, data []byte, r *resourceDesc) error {
	o, row := b.Object, b.Object.Width*b.Stride
	pitch := (row + pitchAlign - 1) / pitchAlign * pitchAlign
	size := uint64(pitch * o.Height)
	if err := c.check("cuMemAlloc", c.memAlloc(&made.memory, size)); err != nil {
		return err
	}
	made.free = append(made.free, func() { c.memFree(made.memory) })
	for y := range o.Height {
		if err := c.check("cuMemcpyHtoD", c.copyToDevice(made.memory+uint64(y*pitch), &data[y*row], uint64(row))); err != nil {
			return err
		}
	}
	r.words[0], r.words[1] = made.memory, uint64(formatOf(b.Columns[0].Type))|uint64(len(b.Columns))<<32
	if r.kind, r.words[2] = resLinear, uint64(row); o.Kind.Name == "pitch" {
		r.kind, r.words[2], r.words[3], r.words[4] = resPitch, uint64(o.Width), uint64(o.Height), uint64(pitch)
	}
	return nil
}

// arrays makes an array, with levels or without.
func (c *cuda) arrays(b *fixture.Buffer, made *object, r *resourceDesc) error {
	o := b.Object
	d := arrayDesc{width: uint64(o.Width), format: formatOf(b.Columns[0].Type), channels: uint32(len(b.Columns))}
	if o.Kind.Axes > 1 {
		d.height = uint64(o.Height)
	}
	switch {
	case o.Kind.Axes > 2:
		d.depth = uint64(o.Depth)
	case o.Kind.Cube || o.Kind.Layered:
		d.depth = uint64(o.Pictures(0))
	}
	for flag, on := range map[uint32]bool{arrayLayered: o.Kind.Layered, arraySurface: o.Surface, arrayCube: o.Kind.Cube, arrayGather: o.Gather} {
		if on {
			d.flags |= flag
		}
	}
	var array uintptr
	if o.Levels == 0 {
		if err := c.check("cuArray3DCreate", c.arrayCreate(&array, &d)); err != nil {
			return err
		}
		made.free = append(made.free, func() { c.arrayDestroy(array) })
		made.levels = []uintptr{array}
		r.kind, r.words[0] = resArray, uint64(array)
		return nil
	}
	if err := c.check("cuMipmappedArrayCreate", c.mipmapCreate(&array, &d, uint32(o.Levels))); err != nil {
		return err
	}
	made.free = append(made.free, func() { c.mipmapDestroy(array) })
	for n := range o.Levels {
		var level uintptr
		if err := c.check("cuMipmappedArrayGetLevel", c.mipmapLevel(&level, array, uint32(n))); err != nil {
			return err
		}
		made.levels = append(made.levels, level)
	}
	r.kind, r.words[0] = resMipmap, uint64(array)
	return nil
}

// copyLevels copies the texels of all levels from data to the arrays, or back.
func (c *cuda) copyLevels(b *fixture.Buffer, made *object, data []byte, write bool) error {
	for n, array := range made.levels {
		w, h := b.Object.Extents(n)
		row, pictures := w*b.Stride, b.Object.Pictures(n)
		host := place{memory: memHost, host: unsafe.Pointer(&data[0]), pitch: uint64(row), height: uint64(h)}
		there := place{memory: memArray, array: array}
		p := &copy3D{from: host, to: there, bytes: uint64(row), height: uint64(h), depth: uint64(pictures)}
		if !write {
			p.from, p.to = there, host
		}
		if err := c.check(fmt.Sprintf("cuMemcpy3D of level %d", n), c.copy3D(p)); err != nil {
			return err
		}
		data = data[row*h*pictures:]
	}
	return nil
}

// contents reads a surface back.
func (c *cuda) contents(b *fixture.Buffer, made *object) ([]byte, error) {
	if made.memory != 0 {
		return nil, fmt.Errorf("%s is no array", b.Name)
	}
	data := make([]byte, b.Bytes())
	return data, c.copyLevels(b, made, data, false)
}

// sizes of the structures above in cuda.h, which the compiler checks.
const (
	_ = -(unsafe.Sizeof(arrayDesc{}) ^ 40)
	_ = -(unsafe.Sizeof(copy3D{}) ^ 200)
	_ = -(unsafe.Sizeof(resourceDesc{}) ^ 144)
	_ = -(unsafe.Sizeof(textureDesc{}) ^ 104)
)
