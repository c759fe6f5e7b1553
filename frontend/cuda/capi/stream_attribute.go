package capi

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"pvdrm/frontend/cuda"
)

// Attributes of streams are some of those of launches. The device serves streams in turn, none of
// its cache lines persist and it has one domain of memory synchronization, so they change nothing,
// and are kept for programs that ask.
const (
	streamWindow     = 1 // CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
	streamSyncPolicy = 3
	streamPriority   = 8
	streamDomainMap  = 9
	streamDomain     = 10
)

// streamDefaults are the values of attributes that were never set, as an H100's driver has them. It
// writes as many bytes of the union as the attribute has.
var streamDefaults = map[uint32][]byte{
	streamWindow: make([]byte, 32), streamSyncPolicy: {0xff, 0xff, 0xff, 0xff}, streamPriority: make([]byte, 4),
	streamDomainMap: {0, 1}, streamDomain: make([]byte, 4),
}

// streamAttribute finds the stream in argument 0, and checks that argument 1 is an attribute of
// streams.
func (c *call) streamAttribute() (x *context, s *cuda.Stream, id uint32, err error) {
	if x, s, err = c.stream(0); err != nil {
		return nil, nil, 0, err
	}
	id = c.u32(1)
	if _, ok := streamDefaults[id]; !ok {
		err = c.fail(cuda.ErrInvalidValue, "the attribute %d of a stream", id)
	}
	return x, s, id, err
}

// streamGetAttribute gets (stream, attribute, value).
func streamGetAttribute(c *call) error {
	x, s, id, err := c.streamAttribute()
	if err != nil {
		return err
	}
	v := slices.Clone(streamDefaults[id])
	to, err := c.out(2, len(v))
	if err != nil {
		return err
	}
	x.mu.Lock()
	copy(v, x.attributes[s][id])
	x.mu.Unlock()
	return to.write(v)
}

// streamSetAttribute gets (stream, attribute, value).
func streamSetAttribute(c *call) error {
	value, err := c.read(c.u64(2), attributeValueBytes)
	if err != nil {
		return err
	}
	x, s, id, err := c.streamAttribute()
	if err != nil {
		return err
	}
	if err := c.checkStreamAttribute(x, id, value); err != nil {
		return err
	}
	if id == streamPriority {
		return nil // a stream keeps the one that it was made with
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.setAttribute(s, id, value)
	return nil
}

// setAttribute keeps the value of an attribute. X.mu is held.
func (x *context) setAttribute(s *cuda.Stream, id uint32, value []byte) {
	if x.attributes == nil {
		x.attributes = map[*cuda.Stream]map[uint32][]byte{}
	}
	if x.attributes[s] == nil {
		x.attributes[s] = map[uint32][]byte{}
	}
	x.attributes[s][id] = value
}

// checkStreamAttribute checks a value. A window is an address, bytes, the part of them that the
// first property is for, and two properties; the domain map has two bytes.
func (c *call) checkStreamAttribute(x *context, id uint32, v []byte) error {
	const (
		maxPolicy  = 4
		persisting = 2 // CU_ACCESS_PROPERTY_PERSISTING, which what misses the window cannot have
		domains    = 4 // that a program may number
	)
	bad := false
	switch id {
	case streamWindow:
		ratio := math.Float32frombits(binary.LittleEndian.Uint32(v[16:]))
		most, _ := attribute(x.Device(), attrLargestWindow)
		bad = !(ratio >= 0 && ratio <= 1) || le64(v[8:]) > uint64(most) || le32(v[24:]) == persisting
	case streamSyncPolicy:
		bad = le32(v) == 0 || le32(v) > maxPolicy
	case streamDomainMap:
		bad = v[0] >= domains || v[1] >= domains
	case streamDomain:
		bad = le32(v) > 1
	}
	if bad {
		return c.fail(cuda.ErrInvalidValue, "the value % x of the attribute %d of a stream", v[:28], id)
	}
	return nil
}

// streamCopyAttributes gets (to, from).
func streamCopyAttributes(c *call) error {
	x, to, err := c.stream(0)
	if err != nil {
		return err
	}
	y, from, err := c.stream(1)
	if err != nil {
		return err
	}
	if x != y {
		return c.fail(cuda.ErrInvalidValue, "streams of two contexts")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	values, own := maps.Clone(x.attributes[from]), x.attributes[to][streamPriority]
	delete(x.attributes, to) // what from never set is not set of to, either
	delete(values, streamPriority)
	if own != nil {
		x.setAttribute(to, streamPriority, own)
	}
	for id, v := range values {
		x.setAttribute(to, id, v)
	}
	return nil
}

// priority returns a stream's priority. X.mu is not held.
func (x *context) priority(s *cuda.Stream) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if v := x.attributes[s][streamPriority]; v != nil {
		return int32(le32(v))
	}
	return 0
}
