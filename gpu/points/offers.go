package points

import (
	"time"

	"pvdrm/gpu"
)

// What a context offers besides gpu.Context goes to the device's context: memory and times are the same there,
// and only functions are the wrapper's. A wrapped context offers what its device's does, so there is a type for each
// kind of device.

// sharer is a context of a device that meters contexts and shares their memory.
type sharer interface {
	gpu.Meter
	gpu.Sharer
}

// asker is a context of a device with a driver that answers, and whose memory other devices may have.
type asker interface {
	sharer
	gpu.PeerSharer
	gpu.Asker
}

var (
	_ sharer = (*sharing)(nil)
	_ asker  = (*asking)(nil)
)

// sharing is a context of a device that has a sharer.
type sharing struct {
	*context
	to sharer
}

// asking is a context of a device that has an asker.
type asking struct {
	sharing
	of asker
}

// offering returns the context with what the device's context offers.
func (c *context) offering() gpu.Context {
	switch inner := c.Context.(type) {
	case asker:
		return &asking{sharing: sharing{context: c, to: inner}, of: inner}
	case sharer:
		return &sharing{context: c, to: inner}
	}
	return c
}

// Busy implements gpu.Meter. All pieces of a launch count.
func (c *sharing) Busy() (compute, copies time.Duration) { return c.to.Busy() }

// Share implements gpu.Sharer.
func (c *sharing) Share(m gpu.Memory) (gpu.Shared, error) {
	s, err := c.to.Share(m)
	return s, c.names.named(err)
}

// Adopt implements gpu.Sharer.
func (c *sharing) Adopt(s gpu.Shared) (gpu.Memory, error) {
	m, err := c.to.Adopt(s)
	return m, c.names.named(err)
}

// AdoptPeer implements gpu.PeerSharer.
func (c *asking) AdoptPeer(place int, name, size uint64) (gpu.Memory, error) {
	m, err := c.of.AdoptPeer(place, name, size)
	return m, c.names.named(err)
}

// Ask implements gpu.Asker. Questions about a kernel are about the kernel as it is: twins are in no cluster.
func (c *asking) Ask(q gpu.Question, f gpu.Function, values []uint64) ([]uint64, error) {
	if own, ok := f.(*function); ok && own != nil {
		f = own.Function
	}
	answer, err := c.of.Ask(q, f, values)
	return answer, c.names.named(err)
}
