package capi

import (
	"cmp"

	"pvdrm/frontend/cuda"
)

// Copies of boxes (CUDA_MEMCPY2D and CUDA_MEMCPY3D) whose memory several contexts may have.

// ownerOf is the context that has a place: x if none is known, nil for a place in the program.
func (c *call) ownerOf(x *context, p place) *context {
	if p.host {
		return nil
	}
	if _, _, err := x.MemGetAddressRange(cuda.DevicePtr(p.addr)); err == nil {
		return x
	}
	has, err := c.ofMemory(p.addr)
	if err != nil {
		return x
	}
	if _, _, err := has.MemGetAddressRange(cuda.DevicePtr(p.addr)); err != nil {
		return x // to be refused there
	}
	return has
}

// box copies rows in the contexts that have them: queued on a stream of x if that has them all, else
// the call waits.
func (c *call) box(x *context, s *cuda.Stream, dst, src place, e extent, queued bool) error {
	to, from := c.ownerOf(x, dst), c.ownerOf(x, src)
	has := cmp.Or(to, from, x)
	two := to != nil && from != nil && to != from
	if has == x && !two {
		return c.settle(x, s, func() error { return c.copyRows(x, s, dst, src, e, queued) })
	}
	if err := c.settle(x, s, s.Synchronize); err != nil {
		return err
	}
	if two {
		return c.boxBetween(to, from, dst, src, e)
	}
	return c.settle(has, has.DefaultStream(), func() error { return c.copyRows(has, has.DefaultStream(), dst, src, e, false) })
}

// boxBetween copies rows from one context to another, after all work of both, by way of pinned memory of each.
func (c *call) boxBetween(to, from *context, dst, src place, e extent) error {
	for _, p := range []place{dst, src} {
		if _, ok := p.span(e); !ok {
			return c.fail(cuda.ErrInvalidValue, "the copy ends outside of all memory")
		}
	}
	if err := c.synchronizeBoth(from, to); err != nil {
		return err
	}
	return c.rowsBetween(to, from, dst, src, e)
}

// rowsBetween copies rows from one context to another. Work that it has to come after must be done.
func (c *call) rowsBetween(to, from *context, dst, src place, e extent) error {
	if e.width > maxBounce {
		return c.eachRow(e, func(y, z uint64) error {
			return bytesBetween(to, from, dst.addr+y*dst.pitch+z*dst.slice, src.addr+y*src.pitch+z*src.slice, e.width)
		})
	}
	rows := min(e.height, maxBounce/e.width)
	out, err := from.MemAllocHost(rows * e.width)
	if err != nil {
		return err
	}
	defer out.Free()
	in, err := to.MemAllocHost(rows * e.width)
	if err != nil {
		return err
	}
	defer in.Free()
	for z := range e.depth {
		for y := uint64(0); y < e.height; y += rows {
			part := extent{e.width, min(rows, e.height-y), 1}
			d, r := dst, src
			d.addr += y*dst.pitch + z*dst.slice
			r.addr += y*src.pitch + z*src.slice
			if err := from.copyPlane(from.DefaultStream(), place{addr: uint64(out.DevicePtr()), pitch: e.width}, r, part, 0); err != nil {
				return err
			}
			if err := from.DefaultStream().Synchronize(); err != nil {
				return err
			}
			copy(in.Bytes(), out.Bytes())
			if err := to.copyPlane(to.DefaultStream(), d, place{addr: uint64(in.DevicePtr()), pitch: e.width}, part, 0); err != nil {
				return err
			}
			if err := to.DefaultStream().Synchronize(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Where CUDA_MEMCPY3D_PEER has the contexts of its ends; the rest of it is as CUDA_MEMCPY3D.
const (
	peerSrcContext = 64
	peerDstContext = 152
)

func memcpy3DPeer(c *call) error      { return c.copyPeers(-1) }
func memcpy3DPeerAsync(c *call) error { return c.copyPeers(1) }

// copyPeers copies what the CUDA_MEMCPY3D_PEER in argument 0 says, on the stream in another argument or, below
// 0, on the default stream of the destination.
func (c *call) copyPeers(streamArg int) error {
	b, err := c.read(c.u64(0), copy3DBytes)
	if err != nil {
		return err
	}
	to, err := c.peerEnd(b, copy3DDst, peerDstContext)
	if err != nil {
		return err
	}
	from, err := c.peerEnd(b, copy3DSrc, peerSrcContext)
	if err != nil {
		return err
	}
	x, s := to, to.DefaultStream()
	if streamArg >= 0 {
		if x, s, err = c.stream(streamArg); err != nil {
			return err
		}
	}
	if err := c.noLevels(b); err != nil {
		return err
	}
	e := extent{le64(b[176:]), le64(b[184:]), le64(b[192:])}
	if e.width == 0 || e.height == 0 || e.depth == 0 {
		return nil
	}
	src, err := c.endOf(from, b, copy3DSrc, e)
	if err != nil {
		return err
	}
	dst, err := c.endOf(to, b, copy3DDst, e)
	if err != nil {
		return err
	}
	return c.box(x, s, dst, src, e, streamArg >= 0)
}

// peerEnd is the context of one end of a copy: the current one for memory of the program.
func (c *call) peerEnd(b []byte, l endLayout, at int) (*context, error) {
	if le32(b[l.kind:]) == memoryHost {
		return c.current()
	}
	h := le64(b[at:])
	if h == 0 { // the address tells
		return c.current()
	}
	x, ok := find[*context](c.lib, h)
	if !ok {
		return nil, c.unknown(invalidContext, "context", h)
	}
	return x, nil
}
