package capi

import (
	"cmp"
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
	p.Handle = c.lib.handles.add(h)
	return p.Handle
}

// anywhere returns the context that is current, or nil, and its device, or else the first.
func (c *call) anywhere() (*cuda.Device, *context, error) {
	dev, err := c.lib.driver.Load().Device(0)
	if err != nil || len(c.thread.stack) == 0 {
		return dev, nil, err
	}
	x, err := c.current()
	if err != nil || x.isEnded() {
		return dev, nil, err
	}
	return x.Device(), x, x.Err(c.entry.name)
}

// reserver returns the device whose addresses are reserved at the address in argument i, or else that of
// anywhere.
func (c *call) reserver(i int) (*cuda.Device, error) {
	found, _, err := c.anywhere()
	for _, dev := range c.devices() {
		if dev.Reserves(c.devicePtr(i)) {
			found = dev
		}
	}
	return found, err
}

// makesPhysical writes the handle of memory that from makes on a device; nil: that of anywhere. Its
// context is nil where none of the device is current.
func (c *call) makesPhysical(to out, dev *cuda.Device, from func(*cuda.Device, *cuda.Context) (*cuda.Physical, error)) error {
	now, x, err := c.anywhere()
	if err != nil {
		return err
	}
	dev = cmp.Or(dev, now)
	var in *cuda.Context
	if x != nil && dev == now {
		in = x.Context
	} else if dev.Shares() == 0 {
		return c.fail(invalidContext, "no context of the device is current, and its memory is of contexts")
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

	// maxAccess bounds the descriptions of one call.
	maxAccess = 64
)

// onDevice finds the device of a CUmemLocation: a kind and a number.
func (c *call) onDevice(b []byte) (*cuda.Device, error) {
	if kind := le32(b); kind != locationDevice {
		return nil, c.fail(cuda.ErrNotSupported, "memory at a location of kind %d; only devices have any, kind 1", kind)
	}
	return c.lib.driver.Load().Device(int(int32(le32(b[4:]))))
}

// onlyOn checks that a CUmemLocation is the device that has the memory. Devices do not reach each
// other's memory.
func (c *call) onlyOn(has *cuda.Device, b []byte) error {
	dev, err := c.onDevice(b)
	if err == nil && dev != has {
		err = c.fail(cuda.ErrInvalidDevice, "the device %d does not reach memory of the device %d", dev.Ordinal(), has.Ordinal())
	}
	return err
}

// prop checks the CUmemAllocationProp in argument i, and finds its device. It reports whether the memory
// is for other processes, too.
func (c *call) prop(i int) (dev *cuda.Device, shareable bool, err error) {
	b, err := c.read(c.u64(i), propBytes)
	if err != nil {
		return nil, false, err
	}
	if kind := le32(b[propType:]); kind != allocationPinned {
		return nil, false, c.fail(cuda.ErrInvalidValue, "an allocation of kind %d", kind)
	}
	if shareable, err = c.handleKinds(le32(b[propHandles:])); err != nil {
		return nil, false, err
	}
	dev, err = c.onDevice(b[propLocation:])
	return dev, shareable, err
}

func memGetAllocationGranularity(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(1), propBytes)
	if err != nil {
		return err
	}
	if kind := le32(b[propType:]); kind != allocationPinned {
		return c.fail(cuda.ErrInvalidValue, "an allocation of kind %d", kind)
	}
	var dev *cuda.Device
	switch kind := le32(b[propLocation:]); {
	case kind > locationDevice && kind <= locationHostLast: // of the host; a program may ask before it is refused such
		dev, _, err = c.anywhere()
	default:
		dev, err = c.onDevice(b[propLocation:])
	}
	if err != nil {
		return err
	}
	if minimumOrRecommended := c.u32(2); minimumOrRecommended > 1 {
		return c.fail(cuda.ErrInvalidValue, "option %d", minimumOrRecommended)
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
	dev, err := c.reserver(0)
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
	dev, shareable, err := c.prop(2)
	if err != nil {
		return err
	}
	if c.u64(3) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(3))
	}
	return c.makesPhysical(to, dev, func(dev *cuda.Device, x *cuda.Context) (*cuda.Physical, error) {
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
	c.lib.retaining.Lock()
	defer c.lib.retaining.Unlock()
	last, err := p.Release()
	if last {
		c.lib.handles.remove(p.Handle)
	}
	return err
}

// memRetain gets (handle, address). The handle is the one that the memory was mapped by, also after it
// was released.
func memRetain(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	dev, err := c.reserver(1)
	if err != nil {
		return err
	}
	c.lib.retaining.Lock()
	defer c.lib.retaining.Unlock()
	p, err := dev.Retain(c.devicePtr(1))
	if err != nil {
		return err
	}
	h := &physical{Physical: p}
	for _, x := range c.lib.allContexts() {
		if x.Context == p.Only() {
			h.ctx = x
		}
	}
	c.lib.handles.put(p.Handle, h)
	return to.set(p.Handle)
}

func memMap(c *call) error {
	p, err := c.physical(3)
	if err != nil {
		return err
	}
	if c.u64(2) != 0 || c.u64(4) != 0 {
		return c.fail(cuda.ErrInvalidValue, "offset %d, flags 0x%x: both must be 0", c.u64(2), c.u64(4))
	}
	dev, err := c.reserver(0)
	if err != nil {
		return err
	}
	if dev != p.Device() {
		return c.fail(cuda.ErrInvalidDevice, "addresses that were reserved for the device %d, and memory of the device %d", dev.Ordinal(), p.Device().Ordinal())
	}
	return dev.MemMap(c.devicePtr(0), c.u64(1), p.Physical)
}

func memUnmap(c *call) error {
	dev, err := c.reserver(0)
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
	dev, err := c.reserver(0)
	for at := 0; at < len(b); at += accessBytes {
		if err := c.onlyOn(dev, b[at:]); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	// All are of one device, so the last one counts.
	access := cuda.Access(le32(b[len(b)-accessBytes+accessFlags:]))
	set := func() error { return dev.MemSetAccess(c.devicePtr(0), c.u64(1), access) }
	if access == cuda.AccessReadWrite {
		return set() // which takes nothing away, and so waits for nothing
	}
	return c.settleEverywhere(set)
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
	by, err := c.onDevice(b)
	if err != nil {
		return err
	}
	dev, err := c.reserver(2)
	if err != nil {
		return err
	}
	access, err := dev.MemAccess(c.devicePtr(2))
	if err != nil {
		return err
	}
	if by != dev {
		access = cuda.AccessNone
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
	binary.LittleEndian.PutUint32(b[propLocation+4:], uint32(p.Device().Ordinal()))
	return to.write(b)
}
