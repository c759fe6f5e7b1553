// Package trap is how a guest of GPUvm hands an access that traps, or a hypercall, to the Aggregator:
// a mailbox, which is a page that both share.
//
// The guest writes a request and then a new ticket number. The Aggregator copies the request, does it,
// writes the answer over it and then the number as done. There is one request at a time, and the guest
// waits for it: a trap is synchronous. How the two wake each other is a matter of the carrier.
//
//	0x000  u32  ticket: number of the last request, which the guest writes last
//	0x004  u32  done: number of the last answer, which the Aggregator writes last
//	0x008  u32  kind of the request; in an answer 0, or 1 if it failed
//	0x00c  u32  BAR
//	0x010  u64  offset in it
//	0x018  u32  value
//	0x01c  u32  bytes of payload
//	0x040       payload: of Call, operations of package paging; of a failed answer, why
//
// All numbers are little-endian. Neither side trusts what the other writes.
package trap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/hypercall/paging"
	"pvdrm/internal/hostmem"
)

// Sizes of a mailbox.
const (
	MailboxBytes = 4096
	MaxPayload   = paging.MaxOps * paging.OpBytes

	headBytes = 0x20
	payloadAt = 0x40
	ticketAt  = 0x00
	doneAt    = 0x04
)

// Kind is what a request asks for.
type Kind uint32

// Requests. Ask and Open come before all others.
const (
	Ask   Kind = 1 // for a Terms
	Open  Kind = 2 // payload: a Grants; answer: a Terms with the base
	Read  Kind = 3 // 4 bytes of a BAR
	Write Kind = 4
	Call  Kind = 5 // operations of package paging
	Count Kind = 6 // for the Counters; it is no trap, and not counted
)

// Request is what a guest asks for.
type Request struct {
	Kind    Kind
	BAR     uint32
	Off     uint64
	Value   uint32
	Payload []byte
}

// Answer answers a Request.
type Answer struct {
	Failed  bool
	Value   uint32
	Payload []byte
}

// ErrRequest reports a request that no guest's driver makes.
var ErrRequest = errors.New("gpuvm: malformed request in a mailbox")

// Mailbox is one side of a mailbox.
type Mailbox struct {
	mem  []byte
	last uint32 // the guest: ticket of its last request; the Aggregator: the last one that it took
}

// NewMailbox makes a side of the mailbox in shared memory, which the other side may change at any time.
func NewMailbox(mem []byte) (*Mailbox, error) {
	if len(mem) < MailboxBytes || !hostmem.Aligned(mem, 8) {
		return nil, fmt.Errorf("gpuvm: a mailbox of %d bytes; it has %d, on their boundary", len(mem), MailboxBytes)
	}
	return &Mailbox{mem: mem[:MailboxBytes:MailboxBytes]}, nil
}

// fields writes what requests and answers have in common.
func (m *Mailbox) fields(kind, bar uint32, off uint64, value uint32, payload []byte) {
	var head [headBytes]byte
	binary.LittleEndian.PutUint32(head[0x08:], kind)
	binary.LittleEndian.PutUint32(head[0x0c:], bar)
	binary.LittleEndian.PutUint64(head[0x10:], off)
	binary.LittleEndian.PutUint32(head[0x18:], value)
	binary.LittleEndian.PutUint32(head[0x1c:], uint32(len(payload)))
	copy(m.mem[0x08:], head[0x08:])
	copy(m.mem[payloadAt:], payload)
}

// Resume goes on with the tickets of a mailbox that others have used. Preconditions: it is the guest's
// side, and no request is under way.
func (m *Mailbox) Resume() { m.last = hostmem.LoadUint32(m.mem, doneAt) }

// Post makes a request. Preconditions: the one before is done, and the payload has at most MaxPayload
// bytes.
func (m *Mailbox) Post(r Request) {
	m.fields(uint32(r.Kind), r.BAR, r.Off, r.Value, r.Payload)
	m.last++
	hostmem.SwapUint32(m.mem, ticketAt, m.last)
}

// Done reports whether the last request has been answered.
func (m *Mailbox) Done() bool { return hostmem.LoadUint32(m.mem, doneAt) == m.last }

// Answer copies the answer to the last request. Preconditions: it is done.
func (m *Mailbox) Answer() Answer {
	head := [headBytes]byte(m.mem)
	a := Answer{Failed: binary.LittleEndian.Uint32(head[0x08:]) != 0, Value: binary.LittleEndian.Uint32(head[0x18:])}
	if n := min(binary.LittleEndian.Uint32(head[0x1c:]), MaxPayload); n > 0 {
		a.Payload = append(a.Payload, m.mem[payloadAt:payloadAt+n]...)
	}
	return a
}

// Pending reports whether there is a request that was not answered.
func (m *Mailbox) Pending() bool { return hostmem.LoadUint32(m.mem, ticketAt) != m.last }

// Unanswered reports whether there is a request that was not answered. Unlike Pending it is for any
// goroutine.
func (m *Mailbox) Unanswered() bool {
	return hostmem.LoadUint32(m.mem, ticketAt) != hostmem.LoadUint32(m.mem, doneAt)
}

// Take copies the pending request; ok is false where there is none. After an error it is to be
// answered, too.
func (m *Mailbox) Take() (r Request, ok bool, err error) {
	ticket := hostmem.LoadUint32(m.mem, ticketAt)
	if ticket == m.last {
		return r, false, nil
	}
	m.last = ticket
	head := [headBytes]byte(m.mem) // once: the guest may write meanwhile
	r.Kind = Kind(binary.LittleEndian.Uint32(head[0x08:]))
	r.BAR = binary.LittleEndian.Uint32(head[0x0c:])
	r.Off = binary.LittleEndian.Uint64(head[0x10:])
	r.Value = binary.LittleEndian.Uint32(head[0x18:])
	n := binary.LittleEndian.Uint32(head[0x1c:])
	if r.Kind < Ask || r.Kind > Count || n > MaxPayload || n > 0 && r.Kind != Call && r.Kind != Open {
		return r, true, ErrRequest
	}
	if n > 0 {
		r.Payload = append(r.Payload, m.mem[payloadAt:payloadAt+n]...)
	}
	return r, true, nil
}

// Reply answers the request that was taken.
func (m *Mailbox) Reply(a Answer) {
	failed := uint32(0)
	if a.Failed {
		failed = 1
	}
	m.fields(failed, 0, 0, a.Value, a.Payload[:min(len(a.Payload), MaxPayload)])
	hostmem.SwapUint32(m.mem, doneAt, m.last)
}
