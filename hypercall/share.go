package hypercall

import "pvdrm/drm"

// Key is the answer to OpGemShare and OpEventNew.
type Key struct{ Key drm.Key } // names the object or event in other sessions of the guest

// Append appends the encoded payload.
func (m Key) Append(b []byte) []byte { return append(b, m.Key[:]...) }

// DecodeKey decodes a Key.
func DecodeKey(b []byte) (m Key, err error) {
	r := reader{b: b}
	copy(m.Key[:], r.take(len(m.Key)))
	return m, r.end()
}

// Open makes an object or event of one that another session of the guest shares.
type Open struct {
	ID  uint32  // the new object's handle, or the event's number
	Key drm.Key // of the other session
}

// Append appends the encoded payload.
func (m Open) Append(b []byte) []byte { return append(put32(b, m.ID), m.Key[:]...) }

// DecodeOpen decodes an Open.
func DecodeOpen(b []byte) (m Open, err error) {
	r := reader{b: b}
	m.ID = r.u32()
	copy(m.Key[:], r.take(len(m.Key)))
	return m, r.end()
}

// Opened is the answer to OpGemOpen.
type Opened struct{ Size uint64 } // of the object, bytes

// Append appends the encoded payload.
func (m Opened) Append(b []byte) []byte { return put64(b, m.Size) }

// DecodeOpened decodes an Opened.
func DecodeOpened(b []byte) (m Opened, err error) {
	r := reader{b: b}
	m.Size = r.u64()
	return m, r.end()
}

// EventPoint is the request of OpEventRecord and OpEventWait.
type EventPoint struct {
	Event   uint32
	Channel uint32
	Seqno   uint64 // record: of a batch that was sent; wait: of the batch that waits, the channel's next
}

// Append appends the encoded payload.
func (m EventPoint) Append(b []byte) []byte { return put64(put32(b, m.Event, m.Channel), m.Seqno) }

// DecodeEventPoint decodes an EventPoint.
func DecodeEventPoint(b []byte) (m EventPoint, err error) {
	r := reader{b: b}
	m.Event, m.Channel, m.Seqno = r.u32(), r.u32(), r.u64()
	return m, r.end()
}

// Reached is the answer to OpEventReached.
type Reached struct{ Reached uint32 } // 1, or 0 while work goes on

// Append appends the encoded payload.
func (m Reached) Append(b []byte) []byte { return put32(b, m.Reached) }

// DecodeReached decodes a Reached.
func DecodeReached(b []byte) (m Reached, err error) {
	r := reader{b: b}
	m.Reached = r.u32()
	return m, r.end()
}
