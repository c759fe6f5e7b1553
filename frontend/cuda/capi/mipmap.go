package capi

import (
	"encoding/binary"
	"math/bits"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

// mipmapped is a CUmipmappedArray: arrays that lie one behind the other.
type mipmapped struct {
	ctx    *context
	addr   cuda.DevicePtr
	place  texture.Descriptor // as a texture
	desc   [arrayBytes3D]byte // of the first level
	levels []uint64           // handles of the levels' arrays
}

func (m *mipmapped) owner() *context { return m.ctx }

// mipmappedArrayCreate makes (handle, description, levels); more levels than the extents
// have are cut.
func mipmappedArrayCreate(c *call) error {
	b, err := c.read(c.u64(1), arrayBytes3D)
	if err != nil {
		return err
	}
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if err := c.needTextures(x); err != nil {
		return err
	}
	m := &mipmapped{ctx: x, desc: [arrayBytes3D]byte(b)}
	if m.place, err = c.describeArray(b); err != nil {
		return err
	}
	m.place.Surface = false
	if m.place.Levels = c.u32(2); m.place.Levels == 0 {
		return c.fail(cuda.ErrInvalidValue, "an array with 0 levels")
	}
	m.place.Levels = min(m.place.Levels, uint32(bits.Len32(max(m.place.Width, m.place.Height, m.place.Depth))))
	n, err := m.place.Place()
	if err != nil {
		return c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	if m.addr, err = x.MemAlloc(n); err != nil {
		return err
	}
	m.place.Base = uint64(m.addr)
	for k := range m.place.Levels {
		m.levels = append(m.levels, c.lib.handles.add(m.level(k)))
	}
	return to.set(c.lib.handles.add(m))
}

// level is level n as an array, whose memory belongs to m.
func (m *mipmapped) level(n uint32) *array {
	a := &array{ctx: m.ctx, of: m, place: m.place.Level(n), desc: m.desc}
	a.place.Surface = true
	a.addr = cuda.DevicePtr(a.place.Base)
	le := binary.LittleEndian
	extents := []uint64{uint64(a.place.Width), uint64(a.place.Height)}
	if a.place.Shape == texture.Shape3D {
		extents = append(extents, uint64(a.place.Depth))
	}
	for k, e := range extents {
		if le64(m.desc[8*k:]) != 0 { // an extent of 0 says that there is no such dimension
			le.PutUint64(a.desc[8*k:], e)
		}
	}
	return a
}

// mipmappedOf finds the array of a handle.
func (c *call) mipmappedOf(handle uint64) (*mipmapped, error) {
	m, ok := find[*mipmapped](c.lib, handle)
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no mipmapped array", handle)
	}
	return m, nil
}

func mipmappedArrayGetLevel(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	m, err := c.mipmappedOf(c.u64(1))
	if err != nil {
		return err
	}
	if n := c.u32(2); uint64(n) < uint64(len(m.levels)) {
		return to.set(m.levels[n])
	}
	return c.fail(cuda.ErrInvalidValue, "level %d of %d", c.u32(2), len(m.levels))
}

func mipmappedArrayDestroy(c *call) error {
	m, err := c.mipmappedOf(c.u64(0))
	if err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	for _, h := range m.levels {
		c.lib.handles.remove(h)
	}
	return c.settle(m.ctx, nil, func() error { return m.ctx.MemFree(m.addr) })
}

// viewBytes is the size of CUDA_RESOURCE_VIEW_DESC.
const viewBytes = 112

// viewFormats are the formats of CUresourceViewFormat from 1 on; each stands for itself and
// the two numbers behind it, with 1, 2 and 4 channels. Those behind them are compressed.
var viewFormats = [...]texture.Format{texture.U8, texture.S8, texture.U16, texture.S16, texture.U32, texture.S32, texture.F16, texture.F32}

// view applies the CUDA_RESOURCE_VIEW_DESC at an address to the texture d of an array with
// a description.
func (c *call) view(addr uint64, d *texture.Descriptor, desc []byte) ([]byte, error) {
	b, err := c.read(addr, viewBytes)
	if err != nil {
		return nil, err
	}
	firstLevel, lastLevel, firstLayer, lastLayer := le32(b[32:]), le32(b[36:]), le32(b[40:]), le32(b[44:])
	bad := func(what string, numbers ...any) ([]byte, error) {
		return nil, c.fail(cuda.ErrInvalidValue, "a view: "+what, numbers...)
	}
	if n := le32(b); n != 0 {
		n--
		if n >= uint32(3*len(viewFormats)) {
			return nil, c.fail(cuda.ErrNotSupported, "a view of format %d", n+1)
		}
		size := d.TexelBytes()
		if d.Format, d.Channels = viewFormats[n/3], 1<<(n%3); d.TexelBytes() != size {
			return bad("elements of %d bytes of a resource whose elements have %d", d.TexelBytes(), size)
		}
	}
	switch {
	case le64(b[8:]) != le64(desc) || le64(b[16:]) != le64(desc[8:]) || !d.Layered && d.Shape != texture.ShapeCube && le64(b[24:]) != le64(desc[16:]):
		return bad("%d by %d by %d elements are not the resource's", le64(b[8:]), le64(b[16:]), le64(b[24:]))
	case firstLevel > lastLevel || lastLevel >= max(d.Levels, 1):
		return bad("levels %d to %d of %d", firstLevel, lastLevel, max(d.Levels, 1))
	}
	if d.Levels != 0 {
		d.From(firstLevel)
		d.Levels = lastLevel - firstLevel + 1
	}
	if !d.Layered {
		if firstLayer != 0 || lastLayer != 0 && (d.Shape != texture.ShapeCube || lastLayer != cubeFaces-1) {
			return bad("layers %d to %d of none", firstLayer, lastLayer)
		}
		return b, nil
	}
	each := uint32(1)
	if d.Shape == texture.ShapeCube {
		each = cubeFaces
	}
	count := lastLayer - firstLayer + 1
	if firstLayer > lastLayer || lastLayer >= d.Layers*each || firstLayer%each != 0 || count%each != 0 {
		return bad("layers %d to %d of %d", firstLayer, lastLayer, d.Layers*each)
	}
	d.Layers = count / each
	if d.Levels != 0 {
		d.First = firstLayer
	} else {
		d.Base += uint64(firstLayer) * d.Slice
	}
	return b, nil
}

// cubeFaces is how many layers a cube takes.
const cubeFaces = 6
