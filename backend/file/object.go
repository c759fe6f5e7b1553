package file

import (
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// Pages are granted memory that an object is made of.
type Pages struct {
	Runs    [][]byte // page aligned, multiples of 4096 bytes long
	Source  uint32   // names the grant to Revoke
	Payer   Payer    // of a grant that is charged elsewhere; nil: the file charges it
	Release func()   // called once, when neither the file nor the device uses the pages
}

// Bytes returns the size of the pages.
func (p *Pages) Bytes() (n uint64) {
	for _, r := range p.Runs {
		n += uint64(len(r))
	}
	return n
}

// Payer pays for objects in a grant that the guest's quota is charged for already, whether there
// are objects in it or not. Implementations must allow calls from any goroutine.
type Payer interface {
	// Pay pays for an object of n bytes, or fails as quota.Set.Take does.
	Pay(n uint64) error
	// Refund gives back what such an object cost. It comes before the release of its pages.
	Refund(n uint64)
}

// object is a GEM object.
type object struct {
	mem   gpu.Memory
	pages Pages // no runs in VRAM

	share  *share // of VRAM that other files may have, too; nil: none has asked for it
	opened bool   // made of what another file shares: the VRAM is charged elsewhere
	loan   *Loan  // made of what another device shares; nil: it is of this one
}

func (o *object) inVRAM() bool { return o.pages.Runs == nil }

// release gives the pages back; the device must be done with them.
func (o *object) release() {
	if o.pages.Release != nil {
		o.pages.Release()
		o.pages.Release = nil
	}
}

// cost returns what an object of so many bytes costs the account.
func (o *object) cost(bytes uint64) quota.Amounts {
	if o.opened {
		return quota.Amounts{quota.Objects: 1}
	}
	if o.inVRAM() {
		return quota.Amounts{quota.VRAM: bytes, quota.Objects: 1}
	}
	c := quota.Amounts{quota.Objects: 1, quota.Runs: uint64(len(o.pages.Runs))}
	if o.pages.Payer == nil {
		c[quota.Granted] = bytes
	}
	return c
}

// charge charges an object, its bytes to the account that pays for them.
func (f *File) charge(o *object, bytes uint64) error {
	c := o.cost(bytes)
	if err := f.account.ChargeEach(c); err != nil {
		return err
	}
	if o.pages.Payer == nil {
		return nil
	}
	err := o.pages.Payer.Pay(bytes)
	if err != nil {
		f.account.DischargeEach(c)
	}
	return err
}

func (f *File) discharge(o *object, bytes uint64) {
	f.account.DischargeEach(o.cost(bytes))
	if o.pages.Payer != nil {
		o.pages.Payer.Refund(bytes)
	}
}

// NextObject returns a handle that no object has.
func (f *File) NextObject() (uint32, error) { return f.objects.Next() }

// ObjectVacant is nil if an object can get this handle, else the error of making it.
func (f *File) ObjectVacant(handle uint32) error { return f.objects.Vacant(handle) }

// NewVRAM makes an object in device memory.
func (f *File) NewVRAM(handle uint32, size uint64) error {
	return f.enter(handle, &object{}, size, func() (gpu.Memory, error) { return f.ctx.NewVRAM(size) })
}

// NewSystem makes an object of granted pages. Where it fails the caller keeps them.
func (f *File) NewSystem(handle uint32, p Pages) error {
	return f.enter(handle, &object{pages: p}, p.Bytes(), func() (gpu.Memory, error) { return f.ctx.NewSystem(p.Runs) })
}

// enter charges an object, allocates its memory and gives it a handle, or does nothing.
func (f *File) enter(handle uint32, o *object, size uint64, allocate func() (gpu.Memory, error)) (err error) {
	if err := f.objects.Vacant(handle); err != nil {
		return err
	}
	if err := f.charge(o, size); err != nil {
		return err
	}
	if o.mem, err = allocate(); err != nil {
		f.discharge(o, size)
		return err
	}
	return f.objects.Put(handle, o)
}

// UnmapObject drops the mappings of an object of granted pages, which stays.
func (f *File) UnmapObject(handle uint32) error {
	o, err := f.objects.Get(handle)
	if err != nil {
		return err
	}
	if o.inVRAM() {
		return fmt.Errorf("object %d is in VRAM: %w", handle, syscall.EINVAL)
	}
	// The device forgets the mappings with its memory object, so a new one takes
	// the place: the grant, which costs the guest exits, stays.
	mem, err := f.ctx.NewSystem(o.pages.Runs)
	if err != nil {
		return err
	}
	old := o.mem
	o.mem = mem
	return old.Close()
}

// CloseObject frees an object and its mappings.
func (f *File) CloseObject(handle uint32) error {
	o, err := f.objects.Take(handle)
	if err != nil {
		return err
	}
	size := o.mem.Size()
	err = o.mem.Close()
	f.unshare(o, size)
	f.discharge(o, size)
	o.release()
	return err
}

// Revoke closes the objects of a grant that the guest takes back while they are open, as happens
// when a guest process dies or lies. It returns their handles.
func (f *File) Revoke(source uint32) (closed []uint32, err error) {
	for handle, o := range f.objects.All {
		if o.inVRAM() || o.pages.Source != source {
			continue
		}
		closed = append(closed, handle)
		if failed := f.CloseObject(handle); failed != nil {
			err = failed
		}
	}
	return closed, err
}

// Bind changes mappings in order until one fails, and returns how many it changed.
func (f *File) Bind(ops []drm.BindOp) (done int, err error) {
	for i, op := range ops {
		if err := f.bind(op); err != nil {
			return i, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return len(ops), nil
}

func (f *File) bind(op drm.BindOp) error {
	switch op.Op {
	case drm.BindMap:
		if op.Flags&^drm.BindReadOnly != 0 {
			return fmt.Errorf("flags 0x%x: %w", op.Flags, syscall.EINVAL)
		}
		o, err := f.objects.Get(op.Handle)
		if err != nil {
			return err
		}
		prot := gpu.ProtRead | gpu.ProtWrite
		if op.Flags&drm.BindReadOnly != 0 {
			prot = gpu.ProtRead
		}
		return f.ctx.Map(op.Addr, o.mem, op.BOOffset, op.Range, prot)
	case drm.BindUnmap:
		if op.Flags != 0 || op.Handle != 0 || op.BOOffset != 0 {
			return fmt.Errorf("unmap with an object or flags: %w", syscall.EINVAL)
		}
		return f.ctx.Unmap(op.Addr, op.Range)
	}
	return fmt.Errorf("bind operation %d: %w", op.Op, syscall.EINVAL)
}
