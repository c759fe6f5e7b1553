package hypercall

import "fmt"

// Geometry of the ring object.
const (
	pageBytes          = 4096                      // of memory, in all sizes of the protocol
	SlotBytes          = 64                        // of one slot
	MaxSlots           = 1 << 14                   // of one queue
	MaxBulkBytes       = 4 << 20                   // of the bulk area
	MaxMessage         = 40 << 10                  // a message with its header, bytes
	MaxAnswer          = 16 << 10                  // one that is a completion
	ShortPayload       = SlotBytes - HeaderBytes   // payload of a message of one slot, at most
	MinSlots           = 1024                      // of the request queue: a largest message always fits
	MinCompletions     = 2 * MaxAnswer / SlotBytes // slots of the completion queue
	MaxChannels        = 64                        // channel records; ids of channels are from 1 to below it
	ChannelRecordBytes = 32                        // of one record

	channelPage = pageBytes     // offset of the channel records
	slotsStart  = 2 * pageBytes // offset of the request slots
	// MaxRingBytes is the size of the largest ring object.
	MaxRingBytes = slotsStart + 2*MaxSlots*SlotBytes + MaxBulkBytes
)

// Offsets in the control page. Each word has a cache line of its own, so that
// the sides do not take each other's lines away.
const (
	offRequestTail      = 0x000 // u32, written by the frontend
	offRequestHead      = 0x040 // u32, written by the backend
	offRequestAsleep    = 0x080 // u32, set by the backend, cleared by either
	offCompletionTail   = 0x0c0 // u32, written by the backend
	offCompletionHead   = 0x100 // u32, written by the frontend
	offCompletionAsleep = 0x140 // u32, set by the frontend, cleared by either
	offSessionState     = 0x180 // u32, written by the backend: StateLive …
)

// States of a session, as the backend shows them.
const (
	StateLive  = 0 // works
	StateLost  = 1 // the GPU context was lost; OpStatus says why
	StateEnded = 2 // the backend ended the session: nothing will be answered any more
)

// Layout is the geometry of one ring object.
type Layout struct {
	RequestSlots    uint32 // a power of two, MinSlots to MaxSlots
	CompletionSlots uint32 // a power of two, MinCompletions to MaxSlots
	BulkBytes       uint32 // a multiple of 4096, up to MaxBulkBytes
}

// DefaultLayout is what the frontends of this tree use: 128 KiB of requests,
// 32 KiB of completions, 64 KiB of bulk.
var DefaultLayout = Layout{RequestSlots: 2048, CompletionSlots: 512, BulkBytes: 64 << 10}

// Validate checks the bounds.
func (l Layout) Validate() error {
	for _, q := range [...]struct{ slots, least uint32 }{{slots: l.RequestSlots, least: MinSlots}, {slots: l.CompletionSlots, least: MinCompletions}} {
		if q.slots < q.least || q.slots > MaxSlots || q.slots&(q.slots-1) != 0 {
			return fmt.Errorf("queue of %d slots: want a power of two from %d to %d", q.slots, q.least, MaxSlots)
		}
	}
	if l.BulkBytes > MaxBulkBytes || l.BulkBytes%pageBytes != 0 {
		return fmt.Errorf("bulk area of %d bytes: want a multiple of %d up to %d", l.BulkBytes, pageBytes, MaxBulkBytes)
	}
	return nil
}

// Bytes is the size of the ring object.
func (l Layout) Bytes() uint64 {
	return slotsStart + uint64(l.RequestSlots+l.CompletionSlots)*SlotBytes + uint64(l.BulkBytes)
}

// bulkStart is the offset of the bulk area.
func (l Layout) bulkStart() uint64 { return l.Bytes() - uint64(l.BulkBytes) }
