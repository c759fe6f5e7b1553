package card

import (
	"encoding/binary"
	"errors"
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// channel is one channel of the card:
//
//	unbound ──RegChannel──► bound ──fault──► halted
//	   ▲────── RegChannel, RegKill ─┴───────────┘
//
// A bound channel that is in the run list fetches while get is not put.
type channel struct {
	card   *Card
	number int

	bind   sync.Mutex
	domain *softgpu.Domain
	value  uint32 // RegChannel

	mu         sync.Mutex
	raw        *softgpu.Raw // nil while unbound
	descriptor uint64
	runs       bool // in the run list
	busy       bool // the goroutine fetches, or is about to
	get, put   uint32
	cause      uint32 // why it is halted; 0 if it is not
	fault      uint64 // the address

	slots  [hw.ModuleSlots]slot // the goroutine's own
	holder *softgpu.Domain      // likewise: the domain as it was bound
}

func (c *channel) init(card *Card, number int) { c.card, c.number, c.domain = card, number, card.host }

// set binds the channel to a descriptor, or to none. What ran is ended before.
func (c *channel) set(v uint32) {
	c.bind.Lock()
	defer c.bind.Unlock()
	c.unbind()
	if v&hw.Valid == 0 {
		return
	}
	descriptor := uint64(v&hw.AddressField) << 12
	c.holder = c.domain
	raw, err := c.card.hardware.Open(c.number, c.domain, descriptor)
	if err != nil {
		return // the card is being closed
	}
	c.value = v & (hw.Valid | hw.AddressField)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.descriptor = raw, descriptor
}

// kill ends the channel.
func (c *channel) kill() {
	c.bind.Lock()
	defer c.bind.Unlock()
	c.unbind()
}

// unbind ends what runs and forgets all. Preconditions: bind is held.
func (c *channel) unbind() {
	c.mu.Lock()
	raw := c.raw
	c.mu.Unlock()
	if raw == nil {
		return
	}
	raw.Close()
	for i := range c.slots {
		c.unload(&c.slots[i])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.raw, c.busy, c.get, c.put, c.cause, c.fault = 0, nil, false, 0, 0, 0, 0
}

// register reads one of the channel's registers, named by that of channel 0.
func (c *channel) register(off uint64) uint32 {
	if off == hw.RegChannel {
		c.bind.Lock()
		defer c.bind.Unlock()
		return c.value
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch off {
	case hw.RegFault:
		return uint32(c.fault)
	case hw.RegFault + 4:
		return uint32(c.fault >> 32)
	case hw.RegFault + 8:
		return c.cause
	case hw.RegState:
		return c.state()
	}
	return 0
}

// state returns the bits of RegState. Preconditions: mu is held.
func (c *channel) state() (bits uint32) {
	for _, b := range []struct {
		is  bool
		bit uint32
	}{{c.raw != nil, hw.StateBound}, {c.runs, hw.StateRuns}, {c.busy, hw.StateBusy}} {
		if b.is {
			bits |= b.bit
		}
	}
	if c.cause != 0 {
		bits |= hw.StateFaulty
	}
	return bits
}

// schedule takes the channel into the run list, or out of it: what is fetched then is run still.
func (c *channel) schedule(runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = runs
	c.start()
}

// ring is the doorbell: entries up to put are to be fetched.
func (c *channel) ring(put uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw != nil {
		c.put = put
		c.start()
	}
}

// start has the goroutine fetch if there is something to fetch. Preconditions: mu is held.
func (c *channel) start() {
	if c.raw == nil || !c.runs || c.busy || c.cause != 0 || c.get == c.put {
		return
	}
	raw := c.raw
	c.busy = c.raw.Run(func() error { return c.fetch(raw) }, func(err error) { c.ended(raw, err) }) == nil
}

// flush drops the translations of the channel if they go through a directory.
func (c *channel) flush(directory uint64) {
	c.mu.Lock()
	raw, descriptor := c.raw, c.descriptor
	c.mu.Unlock()
	if raw != nil && c.card.vram.Word(descriptor+hw.DescDirectory) == directory {
		raw.FlushTLB()
	}
}

// controlAt returns the memory of the control page from an offset on.
func (c *channel) controlAt(off uint64) []byte {
	c.mu.Lock()
	raw, descriptor := c.raw, c.descriptor
	c.mu.Unlock()
	if raw == nil {
		return nil
	}
	page := c.card.vram.Word(descriptor + hw.DescControl)
	if page%hw.ControlBytes != 0 {
		return nil
	}
	if b := c.card.vram.Bytes(page, hw.ControlBytes); b != nil {
		return b[off:]
	}
	return nil
}

// wrong is a command that the channel refuses.
type wrong string

func (w wrong) Error() string { return string(w) }

// ended notes how fetching ended. The goroutine of the channel calls it.
func (c *channel) ended(raw *softgpu.Raw, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || errors.Is(err, gpu.ErrClosed) {
		return
	}
	c.busy = false
	c.cause, c.fault = hw.CauseCommand, uint64(c.get)
	if lost, ok := errors.AsType[*gpu.LostError](err); ok {
		c.fault = lost.Addr
		switch lost.Cause {
		case gpu.LostAddress:
			c.cause = hw.CauseAddress
		case gpu.LostTimeout:
			c.cause = hw.CauseTime
		case gpu.LostDevice, gpu.LostNone:
			c.cause = hw.CauseOther
		default:
			c.cause = hw.CauseKernel
		}
	}
	var record [hw.NotifierBytes]byte
	binary.LittleEndian.PutUint32(record[:], hw.Valid|c.cause)
	binary.LittleEndian.PutUint64(record[8:], c.fault)
	if at := c.card.vram.Word(c.descriptor + hw.DescNotifier); at != 0 && at%hw.NotifierBytes == 0 {
		raw.Notify(at+8, record[8:])
		raw.Notify(at, record[:8]) // a driver that polls sees the address, too
	}
}
