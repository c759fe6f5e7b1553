package capi

import (
	"cmp"
	"errors"

	"pvdrm/frontend/cuda"
)

// inContexts copies (dst, src, bytes) in the context that has the memory: x if it has, or if both
// places are in the program. Between two contexts it copies by way of the program.
func (c *call) inContexts(x *context, dst, src place, within func(*context) error) error {
	to, from := c.ownerOf(x, dst), c.ownerOf(x, src)
	if to != nil && from != nil && to != from {
		if c.reach(x, to, from, dst.addr, src.addr, c.u64(2)) {
			return within(x)
		}
		return c.betweenContexts(to, from, dst.addr, src.addr, c.u64(2))
	}
	return within(cmp.Or(to, from, x))
}

// reach reports whether a context that has one end of a copy between two reaches the other end. Then the GPU copies.
func (c *call) reach(x, to, from *context, dst, src, n uint64) bool {
	switch x {
	case to:
		return x.Reach(from.Context, cuda.DevicePtr(src), n)
	case from:
		return x.Reach(to.Context, cuda.DevicePtr(dst), n)
	}
	return false
}

// otherContext is the context in argument 0, which another one than the current one is to reach.
func (c *call) otherContext() (x, other *context, err error) {
	if x, err = c.current(); err == nil {
		other, err = c.context(0)
	}
	return x, other, err
}

func enablePeer(c *call) error {
	if err := c.noFlags(1); err != nil {
		return err
	}
	x, other, err := c.otherContext()
	if err != nil {
		return err
	}
	return x.EnablePeer(other.Context)
}

func disablePeer(c *call) error {
	x, other, err := c.otherContext()
	if err != nil {
		return err
	}
	return c.settle(x, x.DefaultStream(), func() error { return x.DisablePeer(other.Context) })
}

// betweenContexts copies from one context to another, after all work of both and before what comes later on
// any of their streams. Where one's device does not reach the other's memory, the bytes go through the program.
func (c *call) betweenContexts(to, from *context, dst, src, n uint64) error {
	if err := c.synchronizeBoth(from, to); err != nil {
		return err
	}
	if c.reach(to, to, from, dst, src, n) {
		err := c.line(to, to.DefaultStream(), device(dst), device(src), n, true)
		return errors.Join(err, to.DefaultStream().Synchronize())
	}
	return bytesBetween(to, from, dst, src, n)
}

func (c *call) synchronizeBoth(from, to *context) error {
	for _, x := range []*context{from, to} {
		if err := c.synchronize(x); err != nil {
			return err
		}
	}
	return nil
}

// bytesBetween copies from one context to another. Work that it has to come after must be done.
func bytesBetween(to, from *context, dst, src, n uint64) error {
	buf := make([]byte, min(n, maxBounce))
	for off := uint64(0); off < n; off += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), n-off)]
		if err := from.MemcpyDtoH(buf, cuda.DevicePtr(src+off)); err != nil {
			return err
		}
		if err := to.MemcpyHtoD(cuda.DevicePtr(dst+off), buf); err != nil {
			return err
		}
	}
	return to.DefaultStream().Synchronize()
}

// peers finds the contexts of a copy (dst, its context, src, its context, bytes): those that have the memory,
// whichever the program names, as on an H100.
func (c *call) peers() (to, from *context, err error) {
	if to, err = c.peerOf(0); err == nil {
		from, err = c.peerOf(2)
	}
	return to, from, err
}

// peerOf finds the context of the address in argument i. The next argument names one, or is null.
func (c *call) peerOf(i int) (*context, error) {
	if c.u64(i+1) == 0 {
		return c.ofMemory(c.u64(i))
	}
	x, err := c.context(i + 1)
	if err != nil || x.isEnded() || x.has(c.u64(i)) {
		return x, err
	}
	if other, err := c.ofMemory(c.u64(i)); err == nil && other.has(c.u64(i)) {
		return other, nil
	}
	return x, nil
}

func memcpyPeer(c *call) error {
	to, from, err := c.peers()
	if err != nil {
		return err
	}
	if to != from {
		return c.betweenContexts(to, from, c.u64(0), c.u64(2), c.u64(4))
	}
	return c.line(to, to.DefaultStream(), device(c.u64(0)), device(c.u64(2)), c.u64(4), false)
}

// memcpyPeerAsync waits for copies between two contexts of which the stream's does not reach the other's memory.
func memcpyPeerAsync(c *call) error {
	to, from, err := c.peers()
	if err != nil {
		return err
	}
	if to == from {
		s, err := c.streamOf(to, c.u64(5))
		if err != nil {
			return err
		}
		return c.line(to, s, device(c.u64(0)), device(c.u64(2)), c.u64(4), true)
	}
	x, s, err := c.stream(5)
	if err != nil {
		return err
	}
	if c.reach(x, to, from, c.u64(0), c.u64(2), c.u64(4)) {
		return c.line(x, s, device(c.u64(0)), device(c.u64(2)), c.u64(4), true)
	}
	if err := c.settle(x, s, s.Synchronize); err != nil {
		return err
	}
	return c.betweenContexts(to, from, c.u64(0), c.u64(2), c.u64(4))
}
