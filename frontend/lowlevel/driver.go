package lowlevel

import (
	"errors"
	"fmt"
	"sync"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
	"pvdrm/internal/extent"
)

// Bus is a card as the PCI bus shows it. Accesses have 4 bytes and lie on their boundary.
type Bus interface {
	Read(bar int, off uint64) uint32
	Write(bar int, off uint64, v uint32)
	Size(bar int) uint64
}

// Calls is a hypervisor that changes page tables on demand.
type Calls interface {
	// Hypercall runs the operations of package paging that are encoded in ops, up to the first
	// that fails.
	Hypercall(ops []byte) error
}

// Config says how a driver reaches its card.
type Config struct {
	Bus  Bus
	RAM  []byte // system memory, all of which is the driver's
	Base uint64 // its address on the bus
	// Frames are the addresses of each 2 MiB of RAM where they are not consecutive from Base on; nil where
	// they are.
	Frames []uint64
	Calls  Calls // nil: the driver writes page tables itself
	Multi  bool  // with Calls: up to paging.MaxOps operations a call, until the next flush
}

// Driver drives a card.
type Driver struct {
	Config
	vram, ram *extent.Space
	windowAt  uint32 // RegWindow, as far as known
	windowSet bool
	batch     []byte // operations that are not called yet
	ids       uint32 // of directories, the last one

	bar1, bar3     directory
	space1, space3 *extent.Space // offsets in BAR1 and BAR3
	own            []*instance   // to be freed by Close
	runList        *instance
	channels       []*Context // by number; nil where free
	doorbells      uint64

	sharing sync.Mutex // of Shared contexts
}

// barTables is how much of a BAR the driver has tables for.
const barTables = hw.DirectorySpan

// Open starts the card. Close it when done.
func Open(config Config) (*Driver, error) {
	d := &Driver{Config: config}
	if id := d.Bus.Read(hw.BAR0, hw.RegID); id != hw.CardID {
		return nil, fmt.Errorf("lowlevel: the card says that it is 0x%08x, not 0x%08x", id, hw.CardID)
	}
	count := d.Bus.Read(hw.BAR0, hw.RegCount)
	if count == 0 || count > hw.MaxChannels {
		return nil, fmt.Errorf("lowlevel: the card says that it has %d channels", count)
	}
	d.channels = make([]*Context, count)
	d.vram = extent.New(0, uint64(d.Bus.Read(hw.BAR0, hw.RegVRAM))<<20)
	d.ram = extent.New(0, uint64(len(d.RAM)))
	control := uint64(count) * hw.ControlBytes
	d.space1 = extent.New(control, min(d.Bus.Size(hw.BAR1), barTables))
	d.space3 = extent.New(0, min(d.Bus.Size(hw.BAR3), barTables))
	if err := d.start(); err != nil {
		return nil, fmt.Errorf("lowlevel: %w", err)
	}
	return d, nil
}

// start makes the address spaces of the BARs and the run list.
func (d *Driver) start() (err error) {
	d.ids = paging.First
	if d.Calls != nil {
		d.bar1 = &granted{driver: d, id: paging.BAR1}
		d.bar3 = &granted{driver: d, id: paging.BAR3}
	} else if err := d.startBARs(); err != nil {
		return err
	}
	d.setRegister(hw.RegControl, hw.ControlValid)
	d.runList, err = d.newInstance(hw.SmallPage)
	if err == nil {
		d.own = append(d.own, d.runList)
	}
	return err
}

// startBARs writes the tables of BAR3, through the window, and then those of BAR1.
func (d *Driver) startBARs() error {
	for _, bar := range []struct {
		register uint64
		space    *directory
		size     uint64
		make     func(size uint64) (*instance, error)
	}{
		{register: hw.RegBAR3, space: &d.bar3, size: d.Bus.Size(hw.BAR3), make: d.newWindowed},
		{register: hw.RegBAR1, space: &d.bar1, size: d.Bus.Size(hw.BAR1), make: d.newInstance},
	} {
		size := min(bar.size, barTables)
		dir, err := newWritten(d, bar.make, size)
		if err != nil {
			return err
		}
		descriptor, err := bar.make(hw.DescBytes)
		if err != nil {
			return errors.Join(err, dir.free())
		}
		d.own = append(d.own, descriptor)
		descriptor.write64(hw.DescDirectory, dir.address())
		descriptor.write64(hw.DescLimit, size-1)
		if err := dir.table(0); err != nil {
			return errors.Join(err, dir.free())
		}
		d.setRegister(bar.register, hw.Valid|uint32(descriptor.vram>>12))
		*bar.space = dir
	}
	return nil
}

// Close ends all contexts and stops the card.
func (d *Driver) Close() error {
	var errs []error
	for _, c := range d.channels {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	d.setRegister(hw.RegRunListUpdate, 0)
	d.setRegister(hw.RegControl, 0)
	if d.Calls == nil {
		d.setRegister(hw.RegBAR1, 0)
		d.setRegister(hw.RegBAR3, 0)
	}
	return errors.Join(errs...) // what lies in VRAM goes with the driver
}

// Doorbells returns how many were rung.
func (d *Driver) Doorbells() uint64 { return d.doorbells }

func (d *Driver) setRegister(r uint64, v uint32) { d.Bus.Write(hw.BAR0, r, v) }

// window returns the offset in BAR0 at which a word of VRAM shows, and moves the window there.
func (d *Driver) window(vram uint64) uint64 {
	if at := uint64(d.windowAt) << hw.WindowShift; !d.windowSet || vram < at || vram-at >= hw.WindowBytes {
		d.windowAt, d.windowSet = uint32(vram>>hw.WindowShift), true
		d.setRegister(hw.RegWindow, d.windowAt)
	}
	return hw.WindowBase + vram - uint64(d.windowAt)<<hw.WindowShift
}

// takeVRAM allocates VRAM.
func (d *Driver) takeVRAM(size, align uint64) (uint64, error) {
	at, ok := d.vram.Take(size, align)
	if !ok {
		return 0, fmt.Errorf("no %d bytes of VRAM left in a row, of %d MiB", size, d.Bus.Read(hw.BAR0, hw.RegVRAM))
	}
	return at, nil
}

// call queues an operation, and calls the hypervisor when enough have gathered.
func (d *Driver) call(c paging.Call) error {
	d.batch = paging.Append(d.batch, c)
	if d.Multi && c.Op != paging.Flush && len(d.batch) < paging.MaxOps*paging.OpBytes {
		return nil
	}
	batch := d.batch
	d.batch = d.batch[:0]
	return d.Calls.Hypercall(batch)
}

// flushCalls calls the hypervisor with what has gathered.
func (d *Driver) flushCalls() error {
	if len(d.batch) == 0 {
		return nil
	}
	batch := d.batch
	d.batch = d.batch[:0]
	return d.Calls.Hypercall(batch)
}
