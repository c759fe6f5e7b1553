// Package virgl talks to the virtio-gpu driver of a guest as Mesa's virgl driver
// does, with command streams written by hand: what tests run inside of guests.
package virgl

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/drm"
	"pvdrm/frontend/carrier/virtio"
)

// Side is the width and height of a canvas, in pixels.
const Side = 64

// Bytes are those of a canvas.
const Bytes = 4 * Side * Side

// Canvas is a DRM file with a render target.
type Canvas struct {
	fd     int
	Handle uint32 // of the object
	Res    uint32 // at the host
	Pixels []byte // the object, mapped
}

// Open opens the guest's GPU and makes a canvas.
func Open() (c *Canvas, err error) {
	path, err := virtio.Find()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	c = &Canvas{fd: fd}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	texture := &drm.VirtgpuResourceCreate{Target: virgltest.TargetTexture2D, Format: virgltest.FormatBGRA, Bind: virgltest.BindRenderTarget,
		Width: Side, Height: Side, Depth: 1, ArraySize: 1, Size: Bytes, Stride: 4 * Side}
	if err := virtio.Ioctl(fd, drm.IoctlVirtgpuResourceCreate, texture); err != nil {
		return c, fmt.Errorf("RESOURCE_CREATE: %w", err)
	}
	c.Handle, c.Res = texture.BOHandle, texture.ResHandle
	where := &drm.VirtgpuMap{Handle: c.Handle}
	if err := virtio.Ioctl(fd, drm.IoctlVirtgpuMap, where); err != nil {
		return c, fmt.Errorf("MAP: %w", err)
	}
	if c.Pixels, err = unix.Mmap(fd, int64(where.Offset), Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return c, fmt.Errorf("mmap: %w", err)
	}
	return c, nil
}

// Caps reads a capability set.
func (c *Canvas) Caps(id, version uint32, bytes int) ([]byte, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	b := make([]byte, bytes)
	err := virtio.Ioctl(c.fd, drm.IoctlVirtgpuGetCaps, &drm.VirtgpuGetCaps{
		CapsetID: id, CapsetVer: version, Addr: virtio.Address(&pin, b), Size: uint32(len(b))})
	if err != nil {
		return nil, fmt.Errorf("GET_CAPS of set %d: %w", id, err)
	}
	return b, nil
}

// Submit is EXECBUFFER with the canvas as the object that it is about.
func (c *Canvas) Submit(stream []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	bos := []byte{byte(c.Handle), byte(c.Handle >> 8), byte(c.Handle >> 16), byte(c.Handle >> 24)}
	arg := &drm.VirtgpuExecbuffer{Size: uint32(len(stream)), Command: virtio.Address(&pin, stream),
		BOHandles: virtio.Address(&pin, bos), NumBOHandles: 1, FenceFD: -1}
	if err := virtio.Ioctl(c.fd, drm.IoctlVirtgpuExecbuffer, arg); err != nil {
		return fmt.Errorf("EXECBUFFER: %w", err)
	}
	return nil
}

// Wait waits until the host is done with the canvas.
func (c *Canvas) Wait() error {
	if err := virtio.Ioctl(c.fd, drm.IoctlVirtgpuWait, &drm.VirtgpuWait{Handle: c.Handle}); err != nil {
		return fmt.Errorf("WAIT: %w", err)
	}
	return nil
}

// Fetch brings what the host has rendered to Pixels.
func (c *Canvas) Fetch() error {
	t := &drm.VirtgpuTransfer{BOHandle: c.Handle, Width: Side, Height: Side, Depth: 1}
	if err := virtio.Ioctl(c.fd, drm.IoctlVirtgpuFromHost, t); err != nil {
		return fmt.Errorf("TRANSFER_FROM_HOST: %w", err)
	}
	return c.Wait()
}

// Paint fills the canvas with a color and returns the stream that does it.
func (c *Canvas) Paint(r, g, b float32) *virgltest.Stream {
	s := &virgltest.Stream{}
	s.Surface(1, c.Res, virgltest.FormatBGRA)
	s.Framebuffer(1)
	s.Clear(r, g, b, 1)
	return s
}

// ErrPixels says that something else is on the canvas.
var ErrPixels = errors.New("wrong pixels")

// Check paints the canvas, fetches it, and looks at each pixel.
func (c *Canvas) Check(r, g, b float32) error {
	if err := c.Submit(c.Paint(r, g, b).Bytes()); err != nil {
		return err
	}
	clear(c.Pixels) // no command that fails says so, but it leaves them like this
	if err := c.Fetch(); err != nil {
		return err
	}
	want := [4]byte{byte(b*255 + 0.5), byte(g*255 + 0.5), byte(r*255 + 0.5), 255}
	for i := 0; i < Bytes; i += 4 {
		for j, w := range want {
			if d := int(c.Pixels[i+j]) - int(w); d < -1 || d > 1 {
				return fmt.Errorf("%w: pixel %d is %v, not %v", ErrPixels, i/4, c.Pixels[i:][:4], want)
			}
		}
	}
	return nil
}

// Close closes the file, and with it all it had.
func (c *Canvas) Close() {
	if c.Pixels != nil {
		_ = unix.Munmap(c.Pixels) // our own mapping
	}
	_ = unix.Close(c.fd) // nothing is left to be written
}
