package capi

import (
	"encoding/binary"

	"pvdrm/frontend/cuda"
)

// Virtual memory management. None of these calls needs a current context. If there is one that is
// lost they fail as all calls do.

// physical is a CUmemGenericAllocationHandle.
type physical struct {
	*cuda.Physical
	ctx *context // that it ends with, or nil
}

func (p *physical) owner() *context { return p.ctx }

// newPhysical makes the handle of memory that was made or imported while x was current.
func (c *call) newPhysical(p *cuda.Physical, x *context) uint64 {
	h := &physical{Physical: p}
	if p.Only() != nil {
		h.ctx = x
	}
	return c.lib.handles.add(h)
}

// anywhere returns the device, and the context that is current, or nil.
func (c *call) anywhere() (*cuda.Device, *context, error) {
	dev, err := c.lib.driver.Load().Device(0)
	if err != nil || len(c.thread.stack) == 0 {
		return dev, nil, err
	}
	x, err := c.current()
	if err != nil || x.isEnded() {
		return dev, nil, err
	}
	return dev, x, x.Err(c.entry.name)
}

// makesPhysical writes the handle of memory that from makes on the device. Its context is nil where
// none is current.
func (c *call) makesPhysical(to out, from func(*cuda.Device, *cuda.Context) (*cuda.Physical, error)) error {
	dev, x, err := c.anywhere()
	if err != nil {
		return err
	}
	var in *cuda.Context
	if x != nil {
		in = x.Context
	} else if dev.Shares() == 0 {
		return c.fail(invalidContext, "no context is current, and memory of this device is of contexts")
	}
	p, err := from(dev, in)
	if err != nil {
		return err
	}
	return to.set(c.newPhysical(p, x))
}

// settleEverywhere is settle for the work of all contexts. What failed is told to those who use the
// context that it failed in.
func (c *call) settleEverywhere(do func() error) error {
	for _, x := range c.lib.allContexts() {
		for _, done := range x.hostFunctions(nil) {
			<-done
		}
	}
	return do()
}

// Layout of CUmemAllocationProp and CUmemAccessDesc, in bytes, and what their
// fields may be here. The other fields of the former are hints.
const (
	propBytes    = 32
	propType     = 0
	propHandles  = 4 // kinds of handles for other processes
	propLocation = 8

	accessBytes = 12
	accessFlags = 8

	allocationPinned = 1
	locationDevice   = 1

	// maxAccess bounds the descriptions of one call: there is one device.
	maxAccess = 64
)

// onDevice checks a CUmemLocation: a kind and a number.
func (c *call) onDevice(b []byte) error {
	if kind := le32(b); kind != locationDevice {
		return c.fail(cuda.ErrNotSupported, "memory at a location of kind %d; there is that of devices, 1", kind)
	}
	_, err := c.lib.driver.Load().Device(int(int32(le32(b[4:]))))
	return err
}

// prop checks the CUmemAllocationProp in argument i. It reports whether the memory is for other
// processes, too.
func (c *call) prop(i int) (shareable bool, err error) {
	b, err := c.read(c.u64(i), propBytes)
	if err != nil {
		return false, err
	}
	if kind := le32(b[propType:]); kind != allocationPinned {
		return false, c.fail(cuda.ErrInvalidValue, "an allocation of kind %d", kind)
	}
	if shareable, err = c.handleKinds(le32(b[propHandles:])); err != nil {
		return false, err
	}
	return shareable, c.onDevice(b[propLocation:])
}

func memGetAllocationGranularity(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if _, err := c.prop(1); err != nil {
		return err
	}
	if minimumOrRecommended := c.u32(2); minimumOrRecommended > 1 {
		return c.fail(cuda.ErrInvalidValue, "option %d", minimumOrRecommended)
	}
	dev, err := c.lib.driver.Load().Device(0)
	if err != nil {
		return err
	}
	return to.set(dev.Granularity())
}

// memAddressReserve takes no notice of the address that the program would like best.
func memAddressReserve(c *call) error {
	if c.u64(4) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(4))
	}
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	p, err := dev.AddressReserve(c.u64(1), c.u64(2))
	if err != nil {
		return err
	}
	return to.set(uint64(p))
}

func memAddressFree(c *call) error {
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	return dev.AddressFree(c.devicePtr(0), c.u64(1))
}

func memCreate(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	shareable, err := c.prop(2)
	if err != nil {
		return err
	}
	if c.u64(3) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(3))
	}
	return c.makesPhysical(to, func(dev *cuda.Device, x *cuda.Context) (*cuda.Physical, error) {
		if shareable {
			return dev.MemCreateShareable(x, c.u64(1))
		}
		return dev.MemCreate(x, c.u64(1))
	})
}

// physical finds the memory in argument i.
func (c *call) physical(i int) (*physical, error) {
	p, ok := find[*physical](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no memory of cuMemCreate, or is released", c.u64(i))
	}
	return p, nil
}

func memRelease(c *call) error {
	p, err := c.physical(0)
	if err != nil {
		return err
	}
	if err := p.Release(); err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	return nil
}

func memMap(c *call) error {
	p, err := c.physical(3)
	if err != nil {
		return err
	}
	if c.u64(2) != 0 || c.u64(4) != 0 {
		return c.fail(cuda.ErrInvalidValue, "offset %d, flags 0x%x: both must be 0", c.u64(2), c.u64(4))
	}
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	return dev.MemMap(c.devicePtr(0), c.u64(1), p.Physical)
}

func memUnmap(c *call) error {
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	return c.settleEverywhere(func() error { return dev.MemUnmap(c.devicePtr(0), c.u64(1)) })
}

func memSetAccess(c *call) error {
	n := c.u64(3)
	if n == 0 || n > maxAccess {
		return c.fail(cuda.ErrInvalidValue, "%d descriptions of access", n)
	}
	b, err := c.read(c.u64(2), accessBytes*int(n))
	if err != nil {
		return err
	}
	for at := 0; at < len(b); at += accessBytes {
		if err := c.onDevice(b[at:]); err != nil {
			return err
		}
	}
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	// All are of the one device, so the last one counts.
	access := cuda.Access(le32(b[len(b)-accessBytes+accessFlags:]))
	return c.settleEverywhere(func() error { return dev.MemSetAccess(c.devicePtr(0), c.u64(1), access) })
}

func memGetAccess(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(1), 8)
	if err != nil {
		return err
	}
	if err := c.onDevice(b); err != nil {
		return err
	}
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	access, err := dev.MemAccess(c.devicePtr(2))
	if err != nil {
		return err
	}
	return to.set(uint64(access))
}

func memGetAllocationProperties(c *call) error {
	to, err := c.out(0, propBytes)
	if err != nil {
		return err
	}
	p, err := c.physical(1)
	if err != nil {
		return err
	}
	b := make([]byte, propBytes)
	binary.LittleEndian.PutUint32(b[propType:], allocationPinned)
	if p.Shareable() {
		binary.LittleEndian.PutUint32(b[propHandles:], handleFile)
	}
	binary.LittleEndian.PutUint32(b[propLocation:], locationDevice)
	return to.write(b)
}
