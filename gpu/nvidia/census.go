package nvidia

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// census notes the objects of a worker by which its keeper can stop what it runs.
type census struct {
	objects  []object // channels and subdevices
	computes []object // whose parents are the channels that can run kernels
	groups   []object // of channels
	unnamed  bool     // the driver was to choose the handle of a channel, so it is not known
}

// object is one of a worker that starts.
type object struct {
	device                        int32 // number of the worker's descriptor
	client, parent, handle, class uint32
}

// maxObjects bounds a census; a worker has some 20 channels.
const maxObjects = 1024

// add notes an object by the first bytes of what asks for it, if it is of use. The driver may still
// refuse it: then the channels cannot be stopped, which the stopper finds out.
func (c *census) add(device int32, argument []byte) {
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
	o := object{device: device, client: field(allocClient), parent: field(allocParent), handle: field(allocObject), class: field(allocClass)}
	if o.class&classKindMask == classCompute && len(c.objects) < maxObjects {
		c.computes = append(c.computes, o)
	}
	if o.class == classGroup && len(c.groups) < maxObjects {
		c.groups = append(c.groups, o)
	}
	if o.class != classSubdevice && !o.isChannel() {
		return
	}
	if o.handle == 0 || len(c.objects) == maxObjects {
		c.unnamed = c.unnamed || o.isChannel()
		return
	}
	c.objects = append(c.objects, o)
}

func (o *object) isChannel() bool {
	return o.class > 0xffff>>4 && o.class&classKindMask == classChannel
}

// isCompute reports whether a channel has an object that runs kernels.
func (c *census) isCompute(channel *object) bool {
	return slices.ContainsFunc(c.computes, func(o object) bool { return o.client == channel.client && o.parent == channel.handle })
}

// deviceOf returns the handle of the device that a channel is of: its parent, or that of its group.
func (c *census) deviceOf(channel *object) uint32 {
	i := slices.IndexFunc(c.groups, func(o object) bool { return o.client == channel.client && o.handle == channel.parent })
	if i < 0 {
		return channel.parent
	}
	return c.groups[i].parent
}

// target is what a stopper stops: the channels of a worker, by way of a subdevice of theirs.
type target struct {
	fd                        int // to which the handles belong
	client, device, subdevice uint32
	channels                  []channelOf
}

// channelOf is a channel and its client.
type channelOf struct {
	client, handle uint32
	computes       bool // it can run kernels
}

// target returns the channels of a worker whose descriptors are those.
func (c *census) target(devices map[int32]int) (t target, err error) {
	if c.unnamed {
		return t, fmt.Errorf("the driver has channels that it gave no handles")
	}
	of := uint32(0) // the device: there may be several, with a subdevice each
	for _, o := range c.objects {
		if _, open := devices[o.device]; open && o.isChannel() {
			t.channels = append(t.channels, channelOf{client: o.client, handle: o.handle, computes: c.isCompute(&o)})
			of = c.deviceOf(&o)
		}
	}
	if !slices.ContainsFunc(t.channels, func(c channelOf) bool { return c.computes }) {
		return t, fmt.Errorf("the driver was seen to make no channels for kernels")
	}
	t.client = t.channels[0].client
	isSub := func(o object) bool { return o.class == classSubdevice && o.client == t.client }
	i := slices.IndexFunc(c.objects, func(o object) bool { return isSub(o) && o.parent == of })
	if i < 0 {
		i = slices.IndexFunc(c.objects, isSub)
	}
	if i < 0 {
		return t, fmt.Errorf("the driver was seen to make no subdevice")
	}
	fd, open := devices[c.objects[i].device]
	if !open {
		return t, fmt.Errorf("the driver has closed the descriptor of its channels")
	}
	t.fd, t.device, t.subdevice = fd, c.objects[i].parent, c.objects[i].handle
	return t, nil
}
