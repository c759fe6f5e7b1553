package capi

import "encoding/binary"

// Priorities of streams, kernel nodes and launches are kept for programs that ask. The device serves the
// streams of a context in turn.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// clampPriority makes a priority one that there is, as NVIDIA's driver does.
func clampPriority(v int32) int32 { return min(max(v, greatestPriority), leastPriority) }

// priorityValue is a priority as the value of an attribute.
func priorityValue(v int32) []byte {
	b := make([]byte, attributeValueBytes)
	binary.LittleEndian.PutUint32(b, uint32(clampPriority(v)))
	return b
}

func priorityRange(c *call) error {
	for i, v := range []int32{leastPriority, greatestPriority} {
		to, err := c.optional(i, 4)
		if err != nil {
			return err
		}
		if err := to.set(uint64(uint32(v))); err != nil {
			return err
		}
	}
	_, err := c.current()
	return err
}

// streamCreateWithPriority gets (stream, flags, priority).
func streamCreateWithPriority(c *call) error { return c.createStream(c.i32(2)) }

// streamGetPriority gets (stream, priority).
func streamGetPriority(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	return to.set(uint64(uint32(x.priority(s))))
}
