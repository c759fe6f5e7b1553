package nvidia

import "pvdrm/gpu"

// HeldBy begins a comment in a source that the fake's compiler holds.
const HeldBy = heldBy

// LaunchOnItsOwn has the worker of a channel do what it could do without its backend if it was taken
// over: it launches a kernel that the channel knows nothing of.
func LaunchOnItsOwn(ch gpu.Channel, l *gpu.Launch) error {
	c := ch.(*channel)
	w, err := c.prepareLaunch(&batch{}, l)
	if err != nil {
		return err
	}
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	c.publish(&w, c.flight.number, 0)
	return nil
}
