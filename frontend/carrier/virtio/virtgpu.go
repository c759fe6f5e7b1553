// Package virtio is the frontend's end of the carrier in a virtual machine:
// the unmodified virtio-gpu driver of the guest's Linux. A resource made by
// VIRTGPU_RESOURCE_CREATE is granted memory, EXECBUFFER is the doorbell, and
// the fence of an EXECBUFFER is the interrupt.
//
// A Carrier has no lock: each method is one or a few ioctls, which the kernel
// serialises.
package virtio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// driverName is the name of Linux's virtio-gpu driver in VERSION.
const driverName = "virtio_gpu"

// Carrier is an open render node.
type Carrier struct {
	fd        int
	stop      int // an eventfd that Interrupt makes readable
	path      string
	capset    hypercall.Capset
	doorbells atomic.Uint64
}

var _ carrier.Carrier = (*Carrier)(nil)

// Find returns the first render node that the virtio-gpu driver serves.
func Find() (string, error) {
	all, err := FindAll()
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// FindAll returns all render nodes that the virtio-gpu driver serves, in the order in which Linux
// found them. It is an error if there is none.
func FindAll() (all []string, err error) {
	nodes, err := filepath.Glob("/dev/dri/renderD*") // sorted, and all their numbers have three digits
	if err != nil {
		return nil, err
	}
	var seen []string
	for _, path := range nodes {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			seen = append(seen, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		name, err := driver(fd)
		_ = unix.Close(fd) // opened to ask only
		if err == nil && name == driverName {
			all = append(all, path)
			continue
		}
		seen = append(seen, fmt.Sprintf("%s: driver %q", path, name))
	}
	if len(all) > 0 {
		return all, nil
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("no render node in /dev/dri: %w", unix.ENODEV)
	}
	return nil, fmt.Errorf("no render node of %s (%s): %w", driverName, strings.Join(seen, "; "), unix.ENODEV)
}

func driver(fd int) (string, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	name := make([]byte, 64)
	v := &drm.Version{NameLen: uint64(len(name)), Name: Address(&pin, name)}
	if err := Ioctl(fd, drm.IoctlVersion, v); err != nil {
		return "", fmt.Errorf("DRM_IOCTL_VERSION: %w", err)
	}
	return string(name[:min(v.NameLen, uint64(len(name)))]), nil
}

// Open opens a render node.
func Open(path string) (*Carrier, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd) // err is what to report
		return nil, fmt.Errorf("opening %s: %w", path, os.NewSyscallError("eventfd", err))
	}
	c := &Carrier{fd: fd, stop: stop, path: path}
	if err := c.handshake(); err != nil {
		_ = c.Close() // err is what to report
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// handshake reads the capset. It makes no context on the host yet.
func (c *Carrier) handshake() error {
	name, err := driver(c.fd)
	if err != nil {
		return err
	}
	if name != driverName {
		return fmt.Errorf("the driver is %q, want %q: %w", name, driverName, unix.ENODEV)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	buf := make([]byte, hypercall.CapsetBytes)
	err = Ioctl(c.fd, drm.IoctlVirtgpuGetCaps, &drm.VirtgpuGetCaps{
		CapsetID: hypercall.CapsetID, CapsetVer: hypercall.VersionMajor, Addr: Address(&pin, buf), Size: uint32(len(buf))})
	if err != nil {
		return fmt.Errorf("the device has no PVDRM capset (is its backend `pvdrm backend`?): %w", err)
	}
	c.capset, err = hypercall.DecodeCapset(buf)
	return err
}

// Name is part of carrier.Carrier.
func (c *Carrier) Name() string { return "virtgpu " + c.path }

// Capset is part of carrier.Carrier.
func (c *Carrier) Capset() hypercall.Capset { return c.capset }

// Doorbells is part of carrier.Carrier.
func (c *Carrier) Doorbells() uint64 { return c.doorbells.Load() }

// Alloc is part of carrier.Carrier.
func (c *Carrier) Alloc(size uint64) (*carrier.Pages, error) {
	if size == 0 || size%4096 != 0 || size > 1<<31 {
		return nil, fmt.Errorf("granting %d bytes (a resource has at most 2 GiB): %w", size, unix.EINVAL)
	}
	c.doorbells.Add(1)
	arg := &drm.VirtgpuResourceCreate{
		Target: drm.VirtgpuTargetBuffer, Format: drm.VirtgpuFormatR8, Bind: drm.VirtgpuBindCustom, Flags: hypercall.ResourceFlag,
		Width: uint32(size), Height: 1, Depth: 1, ArraySize: 1, Size: uint32(size)}
	if err := Ioctl(c.fd, drm.IoctlVirtgpuResourceCreate, arg); err != nil {
		return nil, fmt.Errorf("granting %d bytes: %w", size, err)
	}
	return c.mapPages(arg.BOHandle, arg.ResHandle, size)
}

// mapPages maps a new object, or closes it when that fails.
func (c *Carrier) mapPages(bo, res uint32, size uint64) (*carrier.Pages, error) {
	where := &drm.VirtgpuMap{Handle: bo}
	err := Ioctl(c.fd, drm.IoctlVirtgpuMap, where)
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(c.fd, int64(where.Offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = Ioctl(c.fd, drm.IoctlGemClose, &drm.GemClose{Handle: bo}) // err is what to report
		return nil, fmt.Errorf("mapping %d granted bytes: %w", size, err)
	}
	return &carrier.Pages{ID: res, Handle: bo, Mem: mem}, nil
}

// Free is part of carrier.Carrier.
func (c *Carrier) Free(p *carrier.Pages) error {
	c.doorbells.Add(1)
	return errors.Join(unix.Munmap(p.Mem), Ioctl(c.fd, drm.IoctlGemClose, &drm.GemClose{Handle: p.Handle}))
}

// Export is part of carrier.Carrier: a dma-buf.
func (c *Carrier) Export(p *carrier.Pages) (int, error) {
	arg := &drm.PrimeHandle{Handle: p.Handle, Flags: unix.O_CLOEXEC | unix.O_RDWR}
	if err := Ioctl(c.fd, drm.IoctlPrimeHandleToFD, arg); err != nil {
		return -1, fmt.Errorf("exporting granted memory: %w", err)
	}
	return int(arg.FD), nil
}

// Import is part of carrier.Carrier: a dma-buf of the same device. Linux's driver answers ENODEV to one of
// another device, which is EXDEV here: the device is there.
func (c *Carrier) Import(fd int) (*carrier.Pages, error) {
	c.doorbells.Add(1)
	arg := &drm.PrimeHandle{FD: int32(fd)}
	if err := Ioctl(c.fd, drm.IoctlPrimeFDToHandle, arg); err != nil {
		if errors.Is(err, unix.ENODEV) {
			err = unix.EXDEV
		}
		return nil, fmt.Errorf("importing granted memory: %w", err)
	}
	info := &drm.VirtgpuResourceInfo{BOHandle: arg.Handle}
	if err := Ioctl(c.fd, drm.IoctlVirtgpuResourceInfo, info); err != nil {
		_ = Ioctl(c.fd, drm.IoctlGemClose, &drm.GemClose{Handle: arg.Handle}) // err is what to report
		return nil, fmt.Errorf("importing granted memory: %w", err)
	}
	return c.mapPages(arg.Handle, info.ResHandle, uint64(info.Size))
}

// Attach is part of carrier.Carrier.
func (c *Carrier) Attach(_ *carrier.Pages, d hypercall.Doorbell) error {
	_, err := c.ring(d, 0)
	return err
}

// Kick is part of carrier.Carrier.
func (c *Carrier) Kick() error {
	_, err := c.ring(hypercall.Doorbell{Op: hypercall.DoorbellKick}, 0)
	return err
}

// Settle is part of carrier.Carrier. Linux queues the commands that make a
// resource known and does not wait for them; they are served in order, so when
// the fence of a later one signals, they have been.
func (c *Carrier) Settle() error {
	fence, err := c.ring(hypercall.Doorbell{Op: hypercall.DoorbellKick}, drm.VirtgpuExecFenceFDOut)
	if err != nil {
		return err
	}
	return c.await(fence, -1)
}

// ring is one EXECBUFFER; with drm.VirtgpuExecFenceFDOut it returns a fence.
func (c *Carrier) ring(d hypercall.Doorbell, flags uint32) (fence int, err error) {
	c.doorbells.Add(1)
	var pin runtime.Pinner
	defer pin.Unpin()
	b := d.Encode()
	arg := &drm.VirtgpuExecbuffer{Flags: flags, Size: uint32(len(b)), Command: Address(&pin, b), FenceFD: -1}
	if err := Ioctl(c.fd, drm.IoctlVirtgpuExecbuffer, arg); err != nil {
		return -1, fmt.Errorf("doorbell: %w", err)
	}
	return int(arg.FenceFD), nil
}

// SleepExits is part of carrier.Carrier: to sleep takes an EXECBUFFER.
func (c *Carrier) SleepExits() bool { return true }

// Sleep is part of carrier.Carrier. Fences of one guest are on one timeline:
// any later doorbell of any process signals ours too, which is why a return
// means nothing but "look again".
func (c *Carrier) Sleep(timeout time.Duration) error {
	fence, err := c.ring(hypercall.Doorbell{Op: hypercall.DoorbellArm}, drm.VirtgpuExecFenceFDOut)
	if err != nil {
		return err
	}
	return c.await(fence, timeout)
}

// await waits for a fence, or for Interrupt, and closes it.
func (c *Carrier) await(fence int, timeout time.Duration) error {
	defer func() { _ = unix.Close(fence) }() // a sync_file has nothing to flush
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	fds := []unix.PollFd{{Fd: int32(fence), Events: unix.POLLIN}, {Fd: int32(c.stop), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds, ts, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for the backend: %w", os.NewSyscallError("ppoll", err))
	}
	return nil
}

// Interrupt is part of carrier.Carrier.
func (c *Carrier) Interrupt() {
	_, _ = unix.Write(c.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails when it is readable for long
}

// Close is part of carrier.Carrier.
func (c *Carrier) Close() error { return errors.Join(unix.Close(c.stop), unix.Close(c.fd)) }
