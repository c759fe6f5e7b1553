package lowlevel

import (
	"fmt"
	"runtime"
	"time"

	"pvdrm/gpu/softgpu/hw"
)

// notifier is where the record of a halt lies in the page of the fence.
const notifier = 64

// How a context waits: it looks at the fence in memory, first at once and then with pauses, and at
// the channel's registers only when for a long time nothing has come.
const (
	busyLooks  = 2000
	firstPause = 10 * time.Microsecond
	lastPause  = 500 * time.Microsecond
	longWait   = 10 * time.Second
)

// HaltError is a channel that the card has halted.
type HaltError struct {
	Channel int
	Cause   uint32 // hw.Cause*
	Addr    uint64
}

// Error implements error.
func (e *HaltError) Error() string {
	text := map[uint32]string{
		hw.CauseAddress: "an access that its page tables do not allow, at",
		hw.CauseKernel:  "a fault of a kernel, at",
		hw.CauseTime:    "a kernel that ran for too long, at",
		hw.CauseCommand: "a command that the card refuses, of entry",
	}[e.Cause]
	if text == "" {
		text = "a fault of the card, at"
	}
	return fmt.Sprintf("lowlevel: channel %d was halted by %s 0x%x", e.Channel, text, e.Addr)
}

// passed is the number of the last submission that has ended.
func (c *Context) passed() uint64 { return hw.LoadWord(c.fence.mem[:8]) }

// Sync waits until all that was submitted has ended.
func (c *Context) Sync() error {
	pause, began := firstPause, time.Now()
	for looks := 0; c.passed() < c.last; looks++ {
		if err := c.halted(); err != nil {
			return err
		}
		if looks < busyLooks {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, lastPause)
		if time.Since(began) > longWait {
			began = time.Now()
			if c.register(hw.RegState)&hw.StateFaulty != 0 {
				return c.fault()
			}
		}
	}
	return nil
}

// halted reads the notifier.
func (c *Context) halted() error {
	w := hw.LoadWord(c.fence.mem[notifier:][:8])
	if w&hw.Valid == 0 {
		return nil
	}
	return &HaltError{Channel: c.number, Cause: uint32(w) &^ hw.Valid, Addr: hw.LoadWord(c.fence.mem[notifier+8:][:8])}
}

// register reads one of the channel's registers, named by that of channel 0.
func (c *Context) register(r uint64) uint32 {
	unit := uint64(hw.ChannelBytes)
	if r < hw.RegChannel {
		unit = hw.FaultBytes
	}
	return c.driver.Bus.Read(hw.BAR0, r+unit*uint64(c.number))
}

// fault reads why the channel is halted from its registers.
func (c *Context) fault() error {
	addr := uint64(c.register(hw.RegFault)) | uint64(c.register(hw.RegFault+4))<<32
	return &HaltError{Channel: c.number, Cause: c.register(hw.RegFault + 8), Addr: addr}
}
