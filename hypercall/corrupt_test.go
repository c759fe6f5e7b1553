package hypercall

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a hostile producer can write into a queue, and what its consumer says.
func TestCorruptQueueIsAnError(t *testing.T) {
	// message puts a header that claims n bytes into the slot of counter at.
	message := func(c *Consumer, at, n uint32) {
		Header{Op: OpNop, Bytes: n}.encode(c.slots[(at&c.mask)*SlotBytes:])
	}
	for name, corrupt := range map[string]func(*Consumer){
		"tail beyond the queue":           func(c *Consumer) { message(c, c.next, HeaderBytes); c.tail.Store(c.next + MinSlots + 1) },
		"tail behind":                     func(c *Consumer) { message(c, c.next, HeaderBytes); c.tail.Store(c.next - 1) },
		"tail far away":                   func(c *Consumer) { message(c, c.next, HeaderBytes); c.tail.Store(c.next + 1<<31) },
		"no length":                       func(c *Consumer) { message(c, c.next, 0); c.tail.Store(c.next + 1) },
		"shorter than a header":           func(c *Consumer) { message(c, c.next, HeaderBytes-1); c.tail.Store(c.next + 1) },
		"longer than what was published":  func(c *Consumer) { message(c, c.next, SlotBytes+1); c.tail.Store(c.next + 1) },
		"longer than any message":         func(c *Consumer) { message(c, c.next, MaxMessage+1); c.tail.Store(c.next + MinSlots) },
		"a length of 2 GiB":               func(c *Consumer) { message(c, c.next, 1<<31); c.tail.Store(c.next + MinSlots) },
		"a length whose slots wrap to 0":  func(c *Consumer) { message(c, c.next, math.MaxUint32); c.tail.Store(c.next + MinSlots) },
		"a length of 4 GiB less a header": func(c *Consumer) { message(c, c.next, math.MaxUint32-HeaderBytes); c.tail.Store(c.next + MinSlots) },
	} {
		for _, start := range []uint32{0, 17, MinSlots - 1, math.MaxUint32} {
			t.Run(name, func(t *testing.T) {
				f, b := newPair(t, smallLayout)
				c := b.RequestsIn()
				startAt(f.Requests(), c, start)
				corrupt(c)
				before := c.head.Load()
				require.True(t, c.Ready(), "so that the consumer comes to see the error")
				require.False(t, c.Sleep(), "nor does it go to sleep over it")
				for range 2 {
					_, payload, ok, err := c.Get(make([]byte, MaxMessage))
					require.ErrorIs(t, err, ErrCorrupt)
					require.False(t, ok)
					require.Empty(t, payload)
				}
				require.Equal(t, before, c.head.Load(), "nothing was consumed")
			})
		}
	}
}

// What a hostile consumer can do to the producer: no more than to get no messages.
func TestCorruptHeadIsAnError(t *testing.T) {
	for name, head := range map[string]uint32{"ahead": MinSlots + 1, "behind": ^uint32(0), "far": 1 << 31} {
		t.Run(name, func(t *testing.T) {
			f, _ := newPair(t, smallLayout)
			p := f.Requests()
			for range 100 {
				mustPut(t, p, Header{Op: OpNop}, nil)
			}
			p.head.Store(head)
			var err error
			for puts := 0; err == nil; puts++ {
				require.LessOrEqual(t, puts, MinSlots, "head was never looked at")
				var ok bool
				ok, err = p.Put(Header{Op: OpNop}, nil)
				require.True(t, ok || err != nil)
			}
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
}

// The producer's own words in shared memory are not trusted either.
func TestOverwrittenTailDoesNotMisleadItsOwner(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := b.CompletionsOut(), f.Completions()
	mustPut(t, p, Header{Op: OpNop, ID: 1}, nil)
	p.tail.Store(1) // what Publish would store
	require.True(t, func() bool { c.asleep.Store(1); return p.Publish() }(), "it is published all the same")
	p.tail.Store(77)
	mustPut(t, p, Header{Op: OpNop, ID: 2}, nil)
	p.Publish()
	require.EqualValues(t, 2, p.tail.Load())
	h, _ := mustGet(t, c)
	require.EqualValues(t, 1, h.ID)
	h, _ = mustGet(t, c)
	require.EqualValues(t, 2, h.ID)
}

// The flags may hold anything.
func TestFlagsOfAnyValue(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p := f.Requests()
	for _, v := range []uint32{1, 2, 1 << 31, math.MaxUint32} {
		word32(f.mem, offRequestAsleep).Store(v)
		word32(f.mem, offCompletionAsleep).Store(v)
		mustPut(t, p, Header{Op: OpNop}, nil)
		require.True(t, p.Publish())
		require.True(t, b.FrontendAsleep())
		require.True(t, b.WakeFrontend())
		require.False(t, b.FrontendAsleep())
	}
}
