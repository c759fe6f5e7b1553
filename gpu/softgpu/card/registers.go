package card

import (
	"encoding/binary"

	"pvdrm/gpu/softgpu/hw"
)

// perChannel returns the channel that a register belongs to, and the register of channel 0.
func (c *Card) perChannel(off uint64) (ch *channel, register uint64) {
	for _, block := range []struct{ base, bytes uint64 }{{hw.RegFault, hw.FaultBytes}, {hw.RegChannel, hw.ChannelBytes}} {
		if i := (off - block.base) / block.bytes; off >= block.base && i < uint64(len(c.channels)) {
			return &c.channels[i], block.base + (off-block.base)%block.bytes
		}
	}
	return nil, off
}

// register reads a register.
func (c *Card) register(off uint64) uint32 {
	r := &c.registers
	ch, off := c.perChannel(off)
	if ch != nil {
		return ch.register(off)
	}
	switch off {
	case hw.RegID:
		return hw.CardID
	case hw.RegWindow:
		return c.window.Load()
	case hw.RegBAR1:
		return c.bar1.get()
	case hw.RegBAR3:
		return c.bar3.get()
	case hw.RegCount:
		return uint32(len(c.channels))
	case hw.RegControl:
		return c.control.Load()
	case hw.RegVRAM:
		return uint32(c.vram.Size() >> 20)
	case hw.RegRunList, hw.RegFlushTable:
		r.mu.Lock()
		defer r.mu.Unlock()
		if off == hw.RegRunList {
			return r.runList
		}
		return r.flush
	}
	return 0 // also RegFlushStatus: a flush has ended when the write returns
}

// setRegister writes a register.
func (c *Card) setRegister(off uint64, v uint32) {
	r := &c.registers
	ch, off := c.perChannel(off)
	if ch != nil {
		if off == hw.RegChannel {
			ch.set(v)
		}
		return
	}
	switch off {
	case hw.RegWindow:
		c.window.Store(v & hw.AddressField)
	case hw.RegBAR1:
		c.bar1.set(v & (hw.Valid | hw.AddressField))
	case hw.RegBAR3:
		c.bar3.set(v & (hw.Valid | hw.AddressField))
	case hw.RegControl:
		c.control.Store(v & (hw.ControlValid | (hw.ControlValid - 1)))
	case hw.RegKill:
		if v < uint32(len(c.channels)) {
			c.channels[v].kill()
		}
	case hw.RegRunListUpdate:
		c.runListUpdate(v)
	case hw.RegFlush:
		r.mu.Lock()
		directory := uint64(r.flush) << hw.DirectoryUnit
		r.mu.Unlock()
		if v&hw.Valid != 0 {
			c.flush(directory)
		}
	case hw.RegRunList, hw.RegFlushTable:
		r.mu.Lock()
		defer r.mu.Unlock()
		if off == hw.RegRunList {
			r.runList = v & hw.AddressField
		} else {
			r.flush = v
		}
	}
}

// runListUpdate makes the first n entries of the run list the channels that run.
func (c *Card) runListUpdate(n uint32) {
	c.registers.mu.Lock()
	defer c.registers.mu.Unlock()
	var runs [hw.MaxChannels]bool
	list := c.vram.Bytes(uint64(c.registers.runList)<<12, hw.RunListEntry*uint64(min(n, hw.MaxChannels)))
	for ; len(list) > 0; list = list[hw.RunListEntry:] {
		var entry [hw.RunListEntry]byte // VRAM may change meanwhile
		binary.LittleEndian.PutUint64(entry[:], hw.LoadWord(list[:8]))
		if i := binary.LittleEndian.Uint64(entry[:]); i < uint64(len(c.channels)) {
			runs[i] = true
		}
	}
	for i := range c.channels {
		c.channels[i].schedule(runs[i])
	}
}

// flush returns when no engine and no aperture uses a translation through a directory that was
// looked up before.
func (c *Card) flush(directory uint64) {
	c.bar1.flush(directory)
	c.bar3.flush(directory)
	for i := range c.channels {
		c.channels[i].flush(directory)
	}
}
