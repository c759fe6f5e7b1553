package hypercall

import (
	"encoding/binary"
	"fmt"
)

// DoorbellOp says what a doorbell asks for.
type DoorbellOp uint16

// Doorbells. In a virtual machine they are the bytes of VIRTGPU_EXECBUFFER; the
// local carrier sends Attach over its socket and uses eventfds for the others.
const (
	// DoorbellAttach names the ring object of the session. It is the first one.
	DoorbellAttach DoorbellOp = 1
	// DoorbellKick wakes the backend.
	DoorbellKick DoorbellOp = 2
	// DoorbellArm, sent with a fence, asks that the fence is signalled when the
	// completion flag is cleared by the backend, or at once if it is clear. A
	// session holds one fence: the next one signals it, too.
	DoorbellArm DoorbellOp = 3
)

// DoorbellBytes is the size of an encoded Doorbell.
const DoorbellBytes = 32

const doorbellMagic = 0x52445650 // "PVDR"

// Doorbell is what a frontend sends to wake the backend.
//
//	offset  size  field
//	0       4     magic "PVDR"
//	4       2     operation
//	6       2     reserved, 0
//	8       4     attach: resource id of the ring object
//	12      4     attach: request slots
//	16      4     attach: completion slots
//	20      4     attach: bytes of the bulk area
//	24      4     attach: flags, DoorbellNoPoll and DoorbellWatch
//	28      4     attach: number of the device, as the capset has it
type Doorbell struct {
	Op       DoorbellOp
	Resource uint32
	Layout   Layout
	Flags    uint32
	Device   uint32
}

// DoorbellNoPoll, with DoorbellAttach, asks the backend to sleep whenever the
// request queue is empty, so that each multicall needs a doorbell: a switch for
// measurements.
const DoorbellNoPoll = 1 << 0

// DoorbellWatch, with DoorbellAttach, makes a session without a context of the GPU, for what only looks at the device:
// it tells properties and use, and what needs a context fails. The backend announces it (FeatureWatch).
const DoorbellWatch = 1 << 1

// Encode returns the DoorbellBytes bytes of d.
func (d Doorbell) Encode() []byte {
	b := make([]byte, DoorbellBytes)
	binary.LittleEndian.PutUint32(b, doorbellMagic)
	binary.LittleEndian.PutUint16(b[4:], uint16(d.Op))
	binary.LittleEndian.PutUint32(b[8:], d.Resource)
	binary.LittleEndian.PutUint32(b[12:], d.Layout.RequestSlots)
	binary.LittleEndian.PutUint32(b[16:], d.Layout.CompletionSlots)
	binary.LittleEndian.PutUint32(b[20:], d.Layout.BulkBytes)
	binary.LittleEndian.PutUint32(b[24:], d.Flags)
	binary.LittleEndian.PutUint32(b[28:], d.Device)
	return b
}

// DecodeDoorbell decodes and validates a doorbell. Longer input is cut: virtio
// drivers may pad.
func DecodeDoorbell(b []byte) (Doorbell, error) {
	if len(b) < DoorbellBytes || binary.LittleEndian.Uint32(b) != doorbellMagic {
		return Doorbell{}, fmt.Errorf("not a PVDRM doorbell (%d bytes)", len(b))
	}
	d := Doorbell{Op: DoorbellOp(binary.LittleEndian.Uint16(b[4:]))}
	switch d.Op {
	case DoorbellKick, DoorbellArm:
		return d, nil
	case DoorbellAttach:
		d.Resource = binary.LittleEndian.Uint32(b[8:])
		d.Layout = Layout{
			RequestSlots:    binary.LittleEndian.Uint32(b[12:]),
			CompletionSlots: binary.LittleEndian.Uint32(b[16:]),
			BulkBytes:       binary.LittleEndian.Uint32(b[20:]),
		}
		d.Flags = binary.LittleEndian.Uint32(b[24:])
		d.Device = binary.LittleEndian.Uint32(b[28:])
		if d.Flags&^(DoorbellNoPoll|DoorbellWatch) != 0 {
			return Doorbell{}, fmt.Errorf("doorbell with unknown flags 0x%x", d.Flags)
		}
		return d, d.Layout.Validate()
	}
	return Doorbell{}, fmt.Errorf("doorbell with unknown operation %d", d.Op)
}

// IsDoorbell reports whether the bytes start like a doorbell, which tells a
// PVDRM context from one of another protocol.
func IsDoorbell(b []byte) bool {
	return len(b) >= 4 && binary.LittleEndian.Uint32(b) == doorbellMagic
}
