package lowlevel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"pvdrm/gpu/softgpu/hw"
)

// SmallCopy is the largest copy that goes through BAR1. Of Gdev's two limits, 4 KiB from the GPU and
// 4 MiB to it, the second does not fit what the thesis measured: it is the same in both directions.
const SmallCopy = 4 << 10

// buffer is memory in VRAM.
type buffer struct {
	va, vram, size uint64
	shown          map[uint64]uint64 // offset in BAR1 by page, where it is mapped there
}

// Host is system memory that is mapped for the GPU.
type Host struct {
	mem    []byte
	va     uint64
	ram    uint64 // where it lies in the driver's memory
	mapped bool
}

func roundUp(n uint64) uint64 { return (n + hw.SmallPage - 1) &^ (hw.SmallPage - 1) }

// takeVA takes addresses.
func (c *Context) takeVA(size, align uint64) (uint64, error) {
	va, ok := c.va.Take(size, align)
	if !ok {
		return 0, fmt.Errorf("no %d bytes of addresses left", size)
	}
	return va, nil
}

// Alloc allocates VRAM. Its contents are what was there before.
func (c *Context) Alloc(n uint64) (address uint64, err error) {
	size := roundUp(max(n, 1))
	align := uint64(hw.SmallPage)
	if size >= hw.LargePage {
		align = hw.LargePage
	}
	b := &buffer{size: size, shown: map[uint64]uint64{}}
	if b.va, err = c.takeVA(size, align); err != nil {
		return 0, err
	}
	if b.vram, err = c.driver.takeVRAM(size, align); err != nil {
		c.va.Give(b.va, size)
		return 0, err
	}
	c.buffers = append(c.buffers, b)
	return b.va, mapRange(c.dir, b.va, hw.TargetVRAM, b.vram, size, true)
}

// free gives VRAM back.
func (c *Context) free(b *buffer) error {
	d := c.driver
	errs := []error{unmapRange(c.dir, b.va, b.size, true)}
	for _, at := range b.shown {
		d.space1.Give(at, hw.SmallPage)
		errs = append(errs, unmapRange(d.bar1, at, hw.SmallPage, false))
	}
	c.va.Give(b.va, b.size)
	d.vram.Give(b.vram, b.size)
	c.buffers = slices.DeleteFunc(c.buffers, func(o *buffer) bool { return o == b })
	return errors.Join(errs...)
}

// takeHost allocates system memory, and addresses for it.
func (c *Context) takeHost(n uint64) (h *Host, err error) {
	h = &Host{}
	size := roundUp(max(n, 1))
	if h.va, err = c.takeVA(size, hw.SmallPage); err != nil {
		return nil, err
	}
	ram, ok := c.driver.ram.Take(size, hw.SmallPage)
	if !ok {
		c.va.Give(h.va, size)
		return nil, fmt.Errorf("no %d bytes of system memory left, of %d MiB", size, len(c.driver.RAM)>>20)
	}
	h.ram, h.mem = ram, c.driver.RAM[ram:ram+n:ram+size]
	c.hosts = append(c.hosts, h)
	return h, nil
}

func (c *Context) mapHost(h *Host) error {
	h.mapped = true
	return mapPlaces(c.dir, h.va, hw.TargetSystem, h.ram, uint64(cap(h.mem)), false, c.driver.onBus)
}

// onBus is the address of a page of the driver's memory on the bus.
func (d *Driver) onBus(ram uint64) uint64 {
	if d.Frames == nil {
		return d.Base + ram
	}
	return d.Frames[ram/hw.LargePage] + ram%hw.LargePage
}

// freeHost gives system memory back.
func (c *Context) freeHost(h *Host) (err error) {
	size := uint64(cap(h.mem))
	if h.mapped {
		err = unmapRange(c.dir, h.va, size, false)
	}
	c.va.Give(h.va, size)
	c.driver.ram.Give(h.ram, size)
	c.hosts = slices.DeleteFunc(c.hosts, func(o *Host) bool { return o == h })
	return err
}

// AllocHost allocates pinned memory: system memory that the GPU reaches.
func (c *Context) AllocHost(n uint64) ([]byte, error) {
	h, err := c.takeHost(n)
	if err != nil {
		return nil, err
	}
	return h.mem, c.mapHost(h)
}

// pinned finds what AllocHost returned.
func (c *Context) pinned(b []byte) (*Host, error) {
	for _, h := range c.hosts {
		if len(b) > 0 && len(h.mem) >= len(b) && &h.mem[0] == &b[0] {
			return h, nil
		}
	}
	return nil, errors.New("lowlevel: the memory is not pinned")
}

// Write copies to VRAM; from memory of AllocHost, if pinned is set. It returns when all is copied.
func (c *Context) Write(dst uint64, src []byte, pinned bool) error {
	if pinned {
		h, err := c.pinned(src)
		if err != nil {
			return err
		}
		return c.copy(dst, h.va, len(src))
	}
	if small(dst, src) {
		return c.words(dst, src, true)
	}
	for len(src) > 0 {
		n := copy(c.toGPU.mem, src)
		if err := c.copy(dst, c.toGPU.va, n); err != nil {
			return err
		}
		dst, src = dst+uint64(n), src[n:]
	}
	return nil
}

// Read is Write in the other direction.
func (c *Context) Read(dst []byte, src uint64, pinned bool) error {
	if pinned {
		h, err := c.pinned(dst)
		if err != nil {
			return err
		}
		return c.copy(h.va, src, len(dst))
	}
	if small(src, dst) {
		return c.words(src, dst, false)
	}
	for len(dst) > 0 {
		n := min(len(dst), bounceBytes)
		if err := c.copy(c.fromGPU.va, src, n); err != nil {
			return err
		}
		copy(dst, c.fromGPU.mem[:n])
		dst, src = dst[n:], src+uint64(n)
	}
	return nil
}

// small reports whether a copy goes through BAR1. What does not consist of words does not.
func small(va uint64, b []byte) bool { return len(b) <= SmallCopy && (va|uint64(len(b)))%4 == 0 }

// copy has the copy engine copy, and waits.
func (c *Context) copy(dst, src uint64, n int) error {
	if err := c.submit(hw.OpCopy, words64(dst, src, 0, 0, uint64(n), 1)...); err != nil {
		return err
	}
	return c.Sync()
}

// words copies word by word through BAR1, after all work has ended.
func (c *Context) words(va uint64, b []byte, write bool) error {
	if err := c.Sync(); err != nil {
		return err
	}
	bus := c.driver.Bus
	for len(b) > 0 {
		at, err := c.show(va)
		if err != nil {
			return err
		}
		n := min(len(b), int(hw.SmallPage-va%hw.SmallPage))
		for i := 0; i < n; i += 4 {
			if write {
				bus.Write(hw.BAR1, at+uint64(i), binary.LittleEndian.Uint32(b[i:]))
			} else {
				binary.LittleEndian.PutUint32(b[i:], bus.Read(hw.BAR1, at+uint64(i)))
			}
		}
		va, b = va+uint64(n), b[n:]
	}
	return nil
}

// show returns where BAR1 shows an address of a buffer.
func (c *Context) show(va uint64) (uint64, error) {
	i := slices.IndexFunc(c.buffers, func(b *buffer) bool { return va-b.va < b.size })
	if i < 0 {
		return 0, fmt.Errorf("lowlevel: there is no buffer at 0x%x", va)
	}
	b := c.buffers[i]
	page := (va - b.va) / hw.SmallPage
	at, ok := b.shown[page]
	if !ok {
		d := c.driver
		if at, ok = d.space1.Take(hw.SmallPage, hw.SmallPage); !ok {
			return 0, errors.New("lowlevel: no page of BAR1 left")
		}
		b.shown[page] = at
		if err := mapRange(d.bar1, at, hw.TargetVRAM, b.vram+page*hw.SmallPage, hw.SmallPage, false); err != nil {
			return 0, err
		}
	}
	return at + va%hw.SmallPage, nil
}

// Fill sets n words.
func (c *Context) Fill(dst uint64, word uint32, n uint64) error {
	return c.submit(hw.OpFill, append(words64(dst, 0, 4*n, 1), word, 4)...)
}
