package nvidia

import (
	"pvdrm/gpu"
	"pvdrm/gpu/check"
)

// isStopped reports whether Close was called.
func (c *channel) isStopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// vacate gives up the slot of a channel that has ended, unless its stream waits for a word: nothing but that word, or the end
// of the context, ends such a wait. c.mu is held.
func (c *context) vacate(ch *channel) {
	alive := c.Err() == nil
	if alive && ch.orphan != 0 && !reached(c.worker.lane.fence(ch.slot), ch.orphan) {
		c.orphans[ch] = struct{}{}
		return
	}
	delete(c.orphans, ch)
	c.channels[ch.slot] = nil
	c.dev.closeChannel()
	if alive {
		_ = c.do(&request{Op: opClose, Slot: ch.slot}, nil, nil) // an idle stream; a failure here ends the context
	}
}

// prepareWord has the GPU itself wait. It holds its channel up meanwhile, and nothing else.
func (c *channel) prepareWord(cmd *gpu.Word) (w work, err error) {
	if err := check.Word(&c.ctx.dev.props, cmd); err != nil {
		return w, err
	}
	waits := cmd.Op != gpu.WordWrite
	if _, fault := c.ctx.space.reach(cmd.VA, uint64(cmd.Size), !waits); fault != nil {
		return w, fault
	}
	if waits {
		w.word = cmd.VA
	}
	w.local = c.ctx.space.local(cmd.VA)
	return w, w.add(entry{kind: entryWord, words: [7]uint64{cmd.VA, cmd.Value, uint64(cmd.Size) | uint64(cmd.Op)<<32}}, uint64(cmd.Size))
}

// waits reports whether a command waits for a word.
func (w *work) waits() bool { return w.word != 0 }

// loseWaits ends the context if a channel waits for a word in a range that is to be unmapped.
func (c *context) loseWaits(va, n uint64) {
	c.laneMu.Lock()
	var fault *gpu.LostError
	for _, ch := range c.running {
		if ch.word-va < n && !reached(c.worker.lane.fence(ch.slot), ch.number) {
			fault = &gpu.LostError{Cause: gpu.LostAddress, Addr: ch.word, Detail: "a channel waits for a word there that was unmapped"}
		}
	}
	c.laneMu.Unlock()
	if fault != nil {
		c.lose(fault)
	}
}
