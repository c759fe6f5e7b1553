package capi

import (
	"errors"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/tensormap"
)

// tensorMap reads the parameters that both ways to describe a tensor have; at is the argument after those
// that only one of them has.
func (c *call) tensorMap(m *tensormap.Map, at int) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if err := c.needTensorMaps(x); err != nil {
		return err
	}
	m.Type, m.Rank, m.Base = tensormap.Type(min(c.u32(1), uint32(tensormap.Types))), int(min(c.u32(2), tensormap.MaxRank+1)), c.u64(3)
	if c.u64(0) == 0 || m.Rank == 0 || m.Rank > tensormap.MaxRank || m.Type >= tensormap.Types {
		return c.fail(cuda.ErrInvalidValue, "a tensor map at 0x%x for %d dimensions of type %d", c.u64(0), c.u32(2), c.u32(1))
	}
	for n, list := range [][]uint64{m.Dim[:m.Rank], m.Stride[1:m.Rank]} {
		b, err := c.needed(4+n, 8*len(list))
		if err != nil {
			return err
		}
		for k := range list {
			list[k] = le64(b[8*k:])
		}
	}
	if err := c.needed32(at, m.Step[:m.Rank]); err != nil {
		return err
	}
	small := func(i int) uint8 { return uint8(min(c.u32(i), 0xff)) }
	m.Interleave, m.Swizzle, m.Promotion = tensormap.Interleave(small(at+1)), tensormap.Swizzle(small(at+2)), small(at+3)
	if m.NaN = c.u32(at+4) == 1; c.u32(at+4) > 1 {
		return c.fail(cuda.ErrInvalidValue, "fill %d outside of a tensor", c.u32(at+4))
	}
	return nil
}

// needTensorMaps refuses what the device has no tensor maps for.
func (c *call) needTensorMaps(x *context) error {
	switch {
	case !x.Device().Textures() && !x.Device().Images():
		return c.fail(cuda.ErrNotSupported, "the device has no tensor maps")
	case capability(x.Device()) < hopper:
		return c.fail(cuda.ErrNotSupported, "tensor maps are for compute capability 9.0 and above (give the software GPU --sm 9.0)")
	}
	return nil
}

// needed reads n bytes at the address in argument i, which is not null even for none.
func (c *call) needed(i, n int) ([]byte, error) {
	if c.u64(i) == 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "argument %d is a null pointer", i+1)
	}
	return c.read(c.u64(i), n)
}

func (c *call) needed32(i int, to []uint32) error {
	b, err := c.needed(i, 4*len(to))
	if err != nil {
		return err
	}
	for n := range to {
		to[n] = le32(b[4*n:])
	}
	return nil
}

// writeMap checks a tensor map and gives it to the program. Its address need not be aligned.
func (c *call) writeMap(m *tensormap.Map) error {
	err := m.Check()
	if errors.Is(err, tensormap.ErrUnsupported) {
		return c.fail(cuda.ErrNotSupported, "%w", err)
	}
	if err != nil {
		return c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	to, err := c.out(0, tensormap.Size)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	if x.Device().Images() { // its maps are NVIDIA's own
		words, err := x.Ask(c.entry.name, drm.AskTensorMap, nil, mapValues(m)...)
		if err != nil {
			return err
		}
		if len(words) != tensormap.Size/8 {
			return c.fail(cuda.ErrUnknown, "a tensor map of %d words", len(words))
		}
		return to.write(wordBytes(words))
	}
	var b [tensormap.Size]byte
	m.Encode(&b)
	return to.write(b[:])
}

// mapValues are the values of drm.AskTensorMap.
func mapValues(m *tensormap.Map) []uint64 {
	bit := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	v := []uint64{bit(m.Im2col), uint64(m.Type), uint64(m.Rank), m.Base,
		uint64(m.Interleave), uint64(m.Swizzle), uint64(m.Promotion), bit(m.NaN), uint64(m.Channels), uint64(m.Pixels)}
	v = append(append(v, m.Dim[:]...), m.Stride[:]...)
	for _, list := range [][]uint32{m.Box[:], m.Step[:]} {
		for _, n := range list {
			v = append(v, uint64(n))
		}
	}
	for _, n := range append(m.Lower[:], m.Upper[:]...) {
		v = append(v, uint64(uint32(n)))
	}
	return v
}

func tensorMapEncodeTiled(c *call) error {
	var m tensormap.Map
	if err := c.tensorMap(&m, 7); err != nil {
		return err
	}
	if err := c.needed32(6, m.Box[:m.Rank]); err != nil {
		return err
	}
	return c.writeMap(&m)
}

func tensorMapEncodeIm2col(c *call) error {
	m := tensormap.Map{Im2col: true}
	if err := c.tensorMap(&m, 10); err != nil {
		return err
	}
	if m.Rank < 3 {
		return c.fail(cuda.ErrInvalidValue, "pixels of a tensor with %d dimensions", m.Rank)
	}
	for n, to := range []*[3]int32{&m.Lower, &m.Upper} {
		var corner [3]uint32
		if err := c.needed32(6+n, corner[:m.Rank-2]); err != nil {
			return err
		}
		for k, x := range corner {
			to[k] = int32(x)
		}
	}
	m.Channels, m.Pixels = c.u32(8), c.u32(9)
	return c.writeMap(&m)
}

// tensorMapReplaceAddress looks at nothing else of the map, as NVIDIA's does.
func tensorMapReplaceAddress(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if err := c.needTensorMaps(x); err != nil {
		return err
	}
	if x.Device().Images() {
		return c.fail(cuda.ErrNotSupported, "the maps of an NVIDIA GPU are known to its driver alone; encode the map again with the new address")
	}
	if c.u64(1) == 0 || c.u64(1)%16 != 0 || c.u64(1) >= tensormap.MaxAddress {
		return c.fail(cuda.ErrInvalidValue, "a tensor at 0x%x", c.u64(1))
	}
	to, err := c.out(0, tensormap.Size)
	if err != nil {
		return err
	}
	now, err := c.read(to.addr, tensormap.Size)
	if err != nil {
		return err
	}
	tensormap.Replace((*[tensormap.Size]byte)(now), tensormap.FieldAddress, 0, c.u64(1))
	return to.write(now)
}
