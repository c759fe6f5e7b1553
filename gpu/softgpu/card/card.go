package card

import (
	"fmt"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// Card is a software GPU with registers.
type Card struct {
	hardware *softgpu.Hardware
	vram     *hw.VRAM
	host     *softgpu.Domain // of channels that have no other
	channels []channel
	bar1     aperture
	bar3     aperture
	refused  atomic.Uint64

	registers struct {
		mu      sync.Mutex
		flush   uint32
		runList uint32
	}
	window  atomic.Uint32
	control atomic.Uint32
}

// New makes a card. Its number of channels is at most hw.MaxChannels, which 0 stands for.
func New(config softgpu.Config) (*Card, error) {
	if config.MaxChannels == 0 {
		config.MaxChannels = hw.MaxChannels
	}
	if config.MaxChannels > hw.MaxChannels {
		return nil, fmt.Errorf("card: %w: %d channels; a card has at most %d", gpu.ErrInvalid, config.MaxChannels, hw.MaxChannels)
	}
	h, err := softgpu.NewHardware(config)
	if err != nil {
		return nil, err
	}
	c := &Card{hardware: h, vram: h.VRAM(), host: h.NewDomain(), channels: make([]channel, config.MaxChannels)}
	c.bar1.init(c.vram, hw.BAR1Bytes)
	c.bar3.init(c.vram, hw.BAR3Bytes)
	for i := range c.channels {
		c.channels[i].init(c, i)
	}
	return c, nil
}

// Close ends all channels and frees VRAM. Preconditions: nothing accesses the card any more.
func (c *Card) Close() error { return c.hardware.Close() }

// VRAM is the memory of the card as its owner's own mapping shows it.
func (c *Card) VRAM() *hw.VRAM { return c.vram }

// Host is the domain of channels that were given no other.
func (c *Card) Host() *softgpu.Domain { return c.host }

// NewDomain makes a domain for SetDomain.
func (c *Card) NewDomain() *softgpu.Domain { return c.hardware.NewDomain() }

// Stats returns the counters of the engines.
func (c *Card) Stats() gpu.Stats { return c.hardware.Stats() }

// Refused returns how many accesses had a size, an alignment or a place that the card does not serve.
func (c *Card) Refused() uint64 { return c.refused.Load() }

// SetDomain says which system memory a channel reaches from when it is bound next. A nil domain
// stands for Host. Preconditions: the number is a channel's.
func (c *Card) SetDomain(number int, d *softgpu.Domain) {
	if d == nil {
		d = c.host
	}
	ch := &c.channels[number]
	ch.bind.Lock()
	defer ch.bind.Unlock()
	ch.domain = d
}

// Size returns the bytes of a BAR, 0 for one that the card has not.
func (c *Card) Size(bar int) uint64 {
	switch bar {
	case hw.BAR0:
		return hw.BAR0Bytes
	case hw.BAR1:
		return hw.BAR1Bytes
	case hw.BAR3:
		return hw.BAR3Bytes
	}
	return 0
}

// Read reads 4 bytes of a BAR.
func (c *Card) Read(bar int, off uint64) uint32 { return uint32(c.ReadSize(bar, off, 4)) }

// Write writes 4 bytes of a BAR.
func (c *Card) Write(bar int, off uint64, v uint32) { c.WriteSize(bar, off, 4, uint64(v)) }

// ReadSize reads any number of bytes; see the package comment for those that are served.
func (c *Card) ReadSize(bar int, off uint64, size int) uint64 {
	if !served(c.Size(bar), off, size) {
		c.refused.Add(1)
		return ^uint64(0)
	}
	switch bar {
	case hw.BAR3:
		return c.load(c.bar3.at(off, false), size)
	case hw.BAR1:
		if i, ok := c.controlled(off); ok {
			return c.load(c.channels[i].controlAt(off%hw.ControlBytes), size)
		}
		return c.load(c.bar1.at(off, false), size)
	}
	if off >= hw.WindowBase && off < hw.WindowBase+hw.WindowBytes {
		return c.load(c.windowAt(off), size)
	}
	if size != 4 {
		c.refused.Add(1)
		return ^uint64(0)
	}
	return uint64(c.register(off))
}

// WriteSize writes any number of bytes.
func (c *Card) WriteSize(bar int, off uint64, size int, v uint64) {
	if !served(c.Size(bar), off, size) {
		c.refused.Add(1)
		return
	}
	switch bar {
	case hw.BAR3:
		c.store(c.bar3.at(off, true), size, v)
		return
	case hw.BAR1:
		i, ok := c.controlled(off)
		if !ok {
			c.store(c.bar1.at(off, true), size, v)
			return
		}
		c.store(c.channels[i].controlAt(off%hw.ControlBytes), size, v)
		if size == 4 && off%hw.ControlBytes == hw.ControlPut {
			c.channels[i].ring(uint32(v))
		}
		return
	}
	if off >= hw.WindowBase && off < hw.WindowBase+hw.WindowBytes {
		c.store(c.windowAt(off), size, v)
		return
	}
	if size != 4 {
		c.refused.Add(1)
		return
	}
	c.setRegister(off, uint32(v))
}

// served reports whether an access lies in a BAR of so many bytes on its natural boundary.
func served(bytes, off uint64, size int) bool {
	return (size == 4 || size == 8) && off%uint64(size) == 0 && off < bytes && uint64(size) <= bytes-off
}

// load reads from memory; where there is none it reads ones, as PCI does.
func (c *Card) load(b []byte, size int) uint64 {
	switch {
	case len(b) < size:
		c.refused.Add(1)
		return ^uint64(0)
	case size == 8:
		return hw.LoadWord(b[:8])
	}
	return uint64(hw.LoadHalf(b[:4]))
}

func (c *Card) store(b []byte, size int, v uint64) {
	switch {
	case len(b) < size:
		c.refused.Add(1)
	case size == 8:
		hw.StoreWord(b[:8], v)
	default:
		hw.StoreHalf(b[:4], uint32(v))
	}
}

// windowAt is the VRAM that BAR0 shows at an offset.
func (c *Card) windowAt(off uint64) []byte {
	return c.vram.Bytes(uint64(c.window.Load())<<hw.WindowShift+off-hw.WindowBase, 8-off%8)
}

// controlled returns the channel whose control page BAR1 shows at an offset.
func (c *Card) controlled(off uint64) (number int, ok bool) {
	v := c.control.Load()
	if v&hw.ControlValid == 0 {
		return 0, false
	}
	i := off/hw.ControlBytes - uint64(v&^hw.ControlValid)
	return int(i), i < uint64(len(c.channels))
}
