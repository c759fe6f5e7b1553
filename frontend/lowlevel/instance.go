package lowlevel

import (
	"fmt"

	"pvdrm/gpu/softgpu/hw"
)

// instance is memory of the driver in VRAM that the card reads: a page directory, a pair of page
// tables, a descriptor. The driver writes it through BAR3, or through the window of BAR0.
type instance struct {
	driver   *Driver
	vram     uint64
	size     uint64
	at       uint64 // in BAR3
	windowed bool   // it is not there
}

// newWindowed allocates instance memory that is written through the window.
func (d *Driver) newWindowed(size uint64) (*instance, error) {
	at, err := d.takeVRAM(size, hw.SmallPage)
	if err != nil {
		return nil, err
	}
	return &instance{driver: d, vram: at, size: size, windowed: true}, nil
}

// newInstance allocates instance memory and maps it in BAR3. It holds what was there before.
func (d *Driver) newInstance(size uint64) (*instance, error) {
	vram, err := d.takeVRAM(size, hw.SmallPage)
	if err != nil {
		return nil, err
	}
	at, ok := d.space3.Take(size, hw.SmallPage)
	if !ok {
		d.vram.Give(vram, size)
		return nil, fmt.Errorf("no %d bytes of BAR3 left", size)
	}
	o := &instance{driver: d, vram: vram, size: size, at: at}
	return o, mapRange(d.bar3, at, hw.TargetVRAM, vram, size, false)
}

func (o *instance) write32(off uint64, v uint32) {
	d := o.driver
	if o.windowed {
		d.Bus.Write(hw.BAR0, d.window(o.vram+off), v)
		return
	}
	d.Bus.Write(hw.BAR3, o.at+off, v)
}

// write64 writes the low word first.
func (o *instance) write64(off, v uint64) {
	o.write32(off, uint32(v))
	o.write32(off+4, uint32(v>>32))
}

// zero zeroes n bytes.
func (o *instance) zero(off, n uint64) {
	for end := off + n; off < end; off += 4 {
		o.write32(off, 0)
	}
}

func (o *instance) free() error {
	d := o.driver
	d.vram.Give(o.vram, o.size)
	if o.windowed {
		return nil
	}
	d.space3.Give(o.at, o.size)
	return unmapRange(d.bar3, o.at, o.size, false)
}
