package hypercall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrCorrupt means that the other side broke the rules of the ring.
var ErrCorrupt = errors.New("the ring is corrupt")

// Ring is a view of a ring object. Each side makes one of its own mapping, and
// uses one end of each queue: a Producer or Consumer is not safe for concurrent
// use, the channel records and the state are.
type Ring struct {
	mem    []byte
	layout Layout

	stateMu sync.Mutex
	state   uint32 // what SetState published: never read back from shared memory
}

// New makes a view of mem, which must be at least layout.Bytes() long and
// 8-byte aligned. A new ring object is all zeroes.
func New(mem []byte, layout Layout) (*Ring, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if uint64(len(mem)) < layout.Bytes() {
		return nil, fmt.Errorf("ring object of %d bytes for a layout of %d", len(mem), layout.Bytes())
	}
	if !aligned(mem) {
		return nil, errors.New("ring object is not 8-byte aligned")
	}
	return &Ring{mem: mem[:layout.Bytes():layout.Bytes()], layout: layout}, nil
}

// Requests returns the producing end of the request queue, for a frontend.
func (r *Ring) Requests() *Producer {
	return &Producer{queue: r.queue(slotsStart, r.layout.RequestSlots, offRequestTail, offRequestHead, offRequestAsleep)}
}

// RequestsIn returns the consuming end of the request queue, for a backend.
func (r *Ring) RequestsIn() *Consumer {
	return &Consumer{queue: r.queue(slotsStart, r.layout.RequestSlots, offRequestTail, offRequestHead, offRequestAsleep)}
}

// Completions returns the consuming end of the completion queue, for a frontend.
func (r *Ring) Completions() *Consumer {
	return &Consumer{queue: r.completions()}
}

// CompletionsOut returns the producing end of the completion queue, for a backend.
func (r *Ring) CompletionsOut() *Producer { return &Producer{queue: r.completions()} }

func (r *Ring) completions() queue {
	start := slotsStart + uint64(r.layout.RequestSlots)*SlotBytes
	return r.queue(start, r.layout.CompletionSlots, offCompletionTail, offCompletionHead, offCompletionAsleep)
}

// Bulk is the bulk area. Its content may change at any time.
func (r *Ring) Bulk() []byte { return r.mem[r.layout.bulkStart():] }

// State is StateLive, StateLost or StateEnded.
func (r *Ring) State() uint32 { return word32(r.mem, offSessionState).Load() }

// SetState is for the backend. It only moves forward. A WakeFrontend must follow.
func (r *Ring) SetState(s uint32) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	if s > r.state {
		r.state = s
		word32(r.mem, offSessionState).Store(s)
	}
}

// WakeFrontend clears the completion flag and reports whether it was set, that
// is whether the frontend sleeps and must be notified. The backend calls it
// after each store to a channel record or the state.
func (r *Ring) WakeFrontend() bool { return word32(r.mem, offCompletionAsleep).Swap(0) != 0 }

// FrontendAsleep reports whether the completion flag is set. The carrier asks it
// when a frontend arms its interrupt: if it is clear, the event is already there.
func (r *Ring) FrontendAsleep() bool { return word32(r.mem, offCompletionAsleep).Load() != 0 }

// ChannelRecord is how far a channel has come, in the ring object:
//
//	offset  size  field
//	0       8     sequence number up to which everything is done
//	8       8     sequence number of the first batch that failed, 0 if none
//	16      4     errno of that failure
//	20      4     index of the command that failed
//	24      8     written by the frontend: wake it from this sequence number on
type ChannelRecord struct {
	Done   uint64
	Failed uint64
	Errno  uint32
	Index  uint32
}

func recordAt(channel uint32) uint64 {
	return channelPage + uint64(channel%MaxChannels)*ChannelRecordBytes
}

// Channel reads the record of a channel, Done first: if it reports a point as
// done, the failure of that point, if any, is in what is read after it.
func (r *Ring) Channel(channel uint32) ChannelRecord {
	at := recordAt(channel)
	c := ChannelRecord{Done: word64(r.mem, at).Load()}
	if c.Failed = word64(r.mem, at+8).Load(); c.Failed != 0 {
		c.Errno = word32(r.mem, at+16).Load()
		c.Index = word32(r.mem, at+20).Load()
	}
	return c
}

// Done is the sequence number up to which the channel is done.
func (r *Ring) Done(channel uint32) uint64 { return word64(r.mem, recordAt(channel)).Load() }

// SetFailed records the first failure of a channel; the backend calls it before
// the SetDone that completes the batch.
func (r *Ring) SetFailed(channel uint32, seqno uint64, errno, index uint32) {
	at := recordAt(channel)
	word32(r.mem, at+16).Store(errno)
	word32(r.mem, at+20).Store(index)
	word64(r.mem, at+8).Store(seqno)
}

// SetDone publishes progress of a channel.
func (r *Ring) SetDone(channel uint32, seqno uint64) { word64(r.mem, recordAt(channel)).Store(seqno) }

// SetWanted is for a frontend that is about to sleep and waits for one point
// only: until the channel has come so far, its progress wakes nobody. It must be
// set before the flag, and 0 again before anybody waits for another point.
func (r *Ring) SetWanted(channel uint32, seqno uint64) {
	word64(r.mem, recordAt(channel)+24).Store(seqno)
}

// Wanted reports whether progress up to seqno is to wake the frontend. The
// backend asks after SetDone and before WakeFrontend.
func (r *Ring) Wanted(channel uint32, seqno uint64) bool {
	return seqno >= word64(r.mem, recordAt(channel)+24).Load()
}

// ResetChannel clears the record, for a new channel with an old id.
func (r *Ring) ResetChannel(channel uint32) {
	at := recordAt(channel)
	word64(r.mem, at).Store(0)
	word64(r.mem, at+8).Store(0)
}

// queue is one direction of a ring. The counters count slots and wrap around.
type queue struct {
	slots              []byte
	mask               uint32
	tail, head, asleep *atomic.Uint32
	next               uint32 // this side's own counter: never read back from shared memory
}

func (r *Ring) queue(start uint64, slots uint32, tail, head, asleep uint64) queue {
	return queue{
		slots: r.mem[start : start+uint64(slots)*SlotBytes],
		mask:  slots - 1,
		tail:  word32(r.mem, tail), head: word32(r.mem, head), asleep: word32(r.mem, asleep),
	}
}

func (q *queue) size() uint32 { return q.mask + 1 }

func slotsFor(bytes int) uint32 { return uint32((bytes + SlotBytes - 1) / SlotBytes) }

// Producer is the writing end of a queue.
type Producer struct {
	queue
	headSeen  uint32 // the consumer's counter when it was last looked at
	published uint32 // the tail that the consumer was shown
}

// Put writes a message that the other side sees after Publish. It reports
// false when there is no room now. The message is at most MaxMessage bytes
// long, header included.
func (p *Producer) Put(h Header, payload []byte) (bool, error) {
	n := HeaderBytes + len(payload)
	if n > MaxMessage {
		return false, fmt.Errorf("message of %d bytes, at most %d fit", n, MaxMessage)
	}
	want := slotsFor(n)
	if want > p.size() {
		return false, fmt.Errorf("message of %d bytes in a queue of %d slots", n, p.size())
	}
	if p.size()-(p.next-p.headSeen) < want {
		head := p.head.Load()
		if used := p.next - head; used > p.size() {
			return false, fmt.Errorf("%w: head %d, tail %d", ErrCorrupt, head, p.next)
		}
		p.headSeen = head
		if p.size()-(p.next-head) < want {
			return false, nil
		}
	}
	h.Bytes = uint32(n)
	at := uint64(p.next&p.mask) * SlotBytes
	h.encode(p.slots[at : at+HeaderBytes]) // which never wraps: it is shorter than a slot
	at += HeaderBytes
	if len(payload) > 0 {
		if k := copy(p.slots[at:], payload); k < len(payload) {
			copy(p.slots, payload[k:])
		}
	}
	p.next += want
	return true, nil
}

// Publish makes everything that was Put visible: one multicall. It reports
// whether the consumer sleeps and must be woken with a doorbell.
//
// Then it takes the cache lines of the next slots, which the consumer has read a
// round ago, while nobody waits for that: a launch takes two.
func (p *Producer) Publish() (wake bool) {
	if p.published == p.next {
		return false
	}
	p.published = p.next
	p.tail.Store(p.next)
	wake = p.asleep.Load() != 0 && p.asleep.Swap(0) != 0
	for n := p.next; n != p.next+2 && n-p.headSeen <= p.mask; n++ {
		p.slots[n&p.mask*SlotBytes] = 0 // it is free: what is there does not matter
	}
	return wake
}

// ConsumerAsleep reports whether Publish would have to ring now.
func (p *Producer) ConsumerAsleep() bool { return p.asleep.Load() != 0 }

// Pending is the number of slots that were Put and not yet published.
func (p *Producer) Pending() uint32 { return p.next - p.published }

// Consumer is the reading end of a queue.
type Consumer struct{ queue }

// Ready reports whether a message may be there, without reading it. It asks for the
// cache line of the slot all the same: one that polls gets it together with that of
// the tail then, and not after it, which is a third of the way of a message.
func (c *Consumer) Ready() bool {
	c.touch()
	return c.tail.Load() != c.next
}

// Get copies the next message out of shared memory into buf, which must be
// MaxMessage long, and gives its slots back. It reports false when the queue is
// empty. The payload is a part of buf.
func (c *Consumer) Get(buf []byte) (Header, []byte, bool, error) {
	filled := c.tail.Load() - c.next
	if filled == 0 {
		return Header{}, nil, false, nil
	}
	at := uint64(c.next&c.mask) * SlotBytes
	lo, hi := load(c.slots, at), load(c.slots, at+8)
	n := messageBytes(lo)
	if filled > c.size() || n < HeaderBytes || n > MaxMessage || slotsFor(n) > filled {
		return Header{}, nil, false, c.corrupt(filled, n)
	}
	if n <= SlotBytes {
		// By words: copy is a call and works with vectors, which takes an emulated
		// processor several times as long for a few of them.
		for i := HeaderBytes; i < n; i += 8 {
			binary.LittleEndian.PutUint64(buf[i:], load(c.slots, at+uint64(i)))
		}
	} else if k := copy(buf[HeaderBytes:n], c.slots[at+HeaderBytes:]); k < n-HeaderBytes {
		copy(buf[HeaderBytes+k:n], c.slots)
	}
	c.next += slotsFor(n)
	c.head.Store(c.next)
	return decodeHeader(lo, hi), buf[HeaderBytes:n], true, nil
}

// corrupt says what is wrong with the queue.
func (c *Consumer) corrupt(filled uint32, n int) error {
	if filled > c.size() {
		return fmt.Errorf("%w: %d slots are filled of %d", ErrCorrupt, filled, c.size())
	}
	return fmt.Errorf("%w: a message of %d bytes in %d slots", ErrCorrupt, n, filled)
}

// Sleep announces that this side is about to sleep, and reports whether it may:
// if not, a message came in meanwhile. Conditions other than the queue must be
// looked at after Sleep and before the wait.
func (c *Consumer) Sleep() bool {
	c.asleep.Swap(1) // a full barrier: the store is seen before the look below
	if c.Ready() {
		c.asleep.Store(0)
		return false
	}
	return true
}

// Awake takes the announcement back.
func (c *Consumer) Awake() { c.asleep.Store(0) }
