package hypercall

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
)

// smallLayout is the smallest ring that can carry every message.
var smallLayout = Layout{RequestSlots: MinSlots, CompletionSlots: MinSlots, BulkBytes: pageBytes}

// newPair makes a ring object and a view of it for each side, as two mappings
// of the same memory would be.
func newPair(t require.TestingT, l Layout) (frontend, backend *Ring) {
	mem := make([]byte, l.Bytes())
	frontend, err := New(mem, l)
	require.NoError(t, err)
	backend, err = New(mem, l)
	require.NoError(t, err)
	return frontend, backend
}

// startAt moves an empty queue to where n slots have gone through it.
func startAt(p *Producer, c *Consumer, n uint32) {
	p.next, p.published, p.headSeen, c.next = n, n, n, n
	p.tail.Store(n)
	p.head.Store(n)
}

// pattern is a payload of n bytes that no other size has a prefix of.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return b
}

func mustPut(t require.TestingT, p *Producer, h Header, payload []byte) {
	ok, err := p.Put(h, payload)
	require.NoError(t, err)
	require.True(t, ok, "no room")
}

func mustGet(t require.TestingT, c *Consumer) (Header, []byte) {
	h, payload, ok, err := c.Get(make([]byte, MaxMessage))
	require.NoError(t, err)
	require.True(t, ok, "nothing there")
	return h, payload
}

func TestMessagesArriveInOrder(t *testing.T) {
	f, b := newPair(t, smallLayout)
	for _, way := range []struct {
		p *Producer
		c *Consumer
	}{{f.Requests(), b.RequestsIn()}, {b.CompletionsOut(), f.Completions()}} {
		want := []Header{{Op: OpNop, ID: 7}, {Op: OpExec, Flags: FlagAnswer, ID: math.MaxUint32}, {Op: OpStatus, Errno: 5}}
		for i, h := range want {
			mustPut(t, way.p, h, pattern(i*100))
		}
		require.False(t, way.c.Ready(), "nothing is seen before Publish")
		_, _, ok, err := way.c.Get(make([]byte, MaxMessage))
		require.NoError(t, err)
		require.False(t, ok)
		require.False(t, way.p.Publish(), "nobody sleeps")
		for i, h := range want {
			require.True(t, way.c.Ready())
			h.Bytes = uint32(HeaderBytes + i*100)
			got, payload := mustGet(t, way.c)
			require.Equal(t, h, got)
			require.Equal(t, pattern(i*100), append([]byte{}, payload...))
		}
		require.False(t, way.c.Ready())
	}
}

// Every size of message, with the counters near each place where something
// wraps around: the slots, and the counters themselves.
func TestEverySizeAtEveryWrap(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := f.Requests(), b.RequestsIn()
	buf := make([]byte, MaxMessage)
	for _, start := range []uint32{0, MinSlots - 1, MinSlots - 100, math.MaxUint32, math.MaxUint32 - 3, 1<<31 - 1} {
		startAt(p, c, start)
		step := 1
		for n := 0; n <= MaxMessage-HeaderBytes; n += step {
			if n > MaxAnswer || testing.Short() {
				step = 13 // each slot still ends at each of its bytes
			}
			want := pattern(n)
			mustPut(t, p, Header{Op: OpExec, ID: uint32(n)}, want)
			p.Publish()
			h, payload, ok, err := c.Get(buf)
			if err != nil || !ok || h.ID != uint32(n) || !bytes.Equal(want, payload) {
				require.Failf(t, "message changed", "%d bytes from slot %d: %v %v %v", n, start, ok, err, h)
			}
		}
	}
}

func TestPutTooLong(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p := f.Requests()
	ok, err := p.Put(Header{Op: OpExec}, make([]byte, MaxMessage-HeaderBytes+1))
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrCorrupt, "the mistake is on this side")
	require.False(t, ok)
	require.False(t, p.Publish())
	require.False(t, b.RequestsIn().Ready(), "nothing was written")
}

func TestFullQueueAndReuse(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := f.Requests(), b.RequestsIn()
	startAt(p, c, math.MaxUint32-10)
	for round := uint32(0); round < 5; round++ {
		for i := uint32(0); i < MinSlots; i++ {
			mustPut(t, p, Header{Op: OpNop, ID: round<<16 | i}, nil)
		}
		ok, err := p.Put(Header{Op: OpNop}, nil)
		require.NoError(t, err)
		require.False(t, ok, "full")
		p.Publish()
		h, _ := mustGet(t, c)
		require.Equal(t, round<<16, h.ID)
		ok, err = p.Put(Header{Op: OpNop}, make([]byte, SlotBytes))
		require.NoError(t, err)
		require.False(t, ok, "two slots do not fit into one")
		mustPut(t, p, Header{Op: OpStatus, ID: 99}, nil) // the slot given back is used again
		p.Publish()
		for i := uint32(1); i < MinSlots; i++ {
			h, _ = mustGet(t, c)
			require.Equal(t, round<<16|i, h.ID)
		}
		h, _ = mustGet(t, c)
		require.EqualValues(t, 99, h.ID)
		require.False(t, c.Ready())
	}
}

// What Get returned is a copy: the other side cannot change it any more.
func TestGetCopiesOnce(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := f.Requests(), b.RequestsIn()
	want := pattern(1000)
	mustPut(t, p, Header{Op: OpExec, ID: 3}, want)
	p.Publish()
	h, payload := mustGet(t, c)
	for i := range f.mem {
		f.mem[i] = 0xff
	}
	require.Equal(t, Header{Op: OpExec, ID: 3, Bytes: HeaderBytes + 1000}, h)
	require.Equal(t, want, payload)
}

// A payload may be reused once Put has returned.
func TestPutCopies(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := f.Requests(), b.RequestsIn()
	payload := pattern(200)
	mustPut(t, p, Header{Op: OpExec}, payload)
	clear(payload)
	p.Publish()
	_, got := mustGet(t, c)
	require.Equal(t, pattern(200), got)
}

func TestDoorbellOnlyForASleeper(t *testing.T) {
	f, b := newPair(t, smallLayout)
	p, c := f.Requests(), b.RequestsIn()
	send := func() bool { mustPut(t, p, Header{Op: OpNop}, nil); return p.Publish() }

	require.False(t, p.Publish(), "nothing to publish")
	require.False(t, send(), "the consumer polls")
	require.False(t, c.Sleep(), "a message is there")
	require.False(t, send(), "the announcement was taken back")
	mustGet(t, c)
	mustGet(t, c)
	require.True(t, c.Sleep())
	require.False(t, p.Publish(), "still nothing to publish")
	require.True(t, send())
	require.False(t, send(), "one doorbell for one announcement")
	c.Awake()
	mustGet(t, c)
	mustGet(t, c)
	require.True(t, c.Sleep())
	c.Awake() // woken by something else
	require.False(t, send())
}

func TestChannelRecords(t *testing.T) {
	f, b := newPair(t, smallLayout)
	for ch := uint32(0); ch < MaxChannels; ch++ {
		b.SetDone(ch, uint64(ch)<<33|1)
	}
	b.SetFailed(5, 1<<40, 14, 3)
	b.SetDone(5, 1<<40)
	for ch := uint32(0); ch < MaxChannels; ch++ {
		want := ChannelRecord{Done: uint64(ch)<<33 | 1}
		if ch == 5 {
			want = ChannelRecord{Done: 1 << 40, Failed: 1 << 40, Errno: 14, Index: 3}
		}
		require.Equal(t, want, f.Channel(ch))
		require.Equal(t, want.Done, f.Done(ch))
	}
	b.ResetChannel(5)
	require.Equal(t, ChannelRecord{}, f.Channel(5))
	require.Equal(t, uint64(4)<<33|1, f.Done(4))
	require.Equal(t, uint64(6)<<33|1, f.Done(6))
	require.Equal(t, f.Channel(1), f.Channel(1+MaxChannels), "an id out of range stays inside the page")
}

func TestStateMovesForwardOnly(t *testing.T) {
	f, b := newPair(t, smallLayout)
	require.EqualValues(t, StateLive, f.State())
	b.SetState(StateLost)
	require.EqualValues(t, StateLost, f.State())
	b.SetState(StateLive)
	require.EqualValues(t, StateLost, f.State())
	b.SetState(StateEnded)
	b.SetState(StateLost)
	require.EqualValues(t, StateEnded, f.State())
	// What a hostile frontend writes there changes nothing for the backend.
	_, b = newPair(t, smallLayout)
	word32(b.mem, offSessionState).Store(math.MaxUint32)
	b.SetState(StateEnded)
	require.EqualValues(t, StateEnded, b.State())
}

func TestWakeFrontend(t *testing.T) {
	f, b := newPair(t, smallLayout)
	c, p := f.Completions(), b.CompletionsOut()
	require.False(t, b.WakeFrontend())
	require.True(t, c.Sleep())
	require.True(t, b.FrontendAsleep())
	b.SetDone(0, 1)
	require.True(t, b.WakeFrontend())
	require.False(t, b.FrontendAsleep())
	mustPut(t, p, Header{Op: OpNop}, nil)
	require.False(t, p.Publish(), "both take the same announcement, and one did")
}

func TestLayout(t *testing.T) {
	require.NoError(t, DefaultLayout.Validate())
	require.EqualValues(t, MaxRingBytes, Layout{MaxSlots, MaxSlots, MaxBulkBytes}.Bytes())
	require.Equal(t, uint64(slotsStart+2*MinSlots*SlotBytes), smallLayout.bulkStart())
	for _, bad := range []Layout{
		{},
		{RequestSlots: MinSlots / 2, CompletionSlots: MinSlots},
		{RequestSlots: MinSlots, CompletionSlots: MinCompletions / 2},
		{RequestSlots: MaxSlots * 2, CompletionSlots: MinSlots},
		{RequestSlots: MinSlots + 1, CompletionSlots: MinSlots},
		{RequestSlots: MinSlots, CompletionSlots: 3 * MinSlots},
		{RequestSlots: 1 << 31, CompletionSlots: 1 << 31},
		{RequestSlots: MinSlots, CompletionSlots: MinSlots, BulkBytes: 1},
		{RequestSlots: MinSlots, CompletionSlots: MinSlots, BulkBytes: MaxBulkBytes + pageBytes},
	} {
		require.Error(t, bad.Validate(), "%+v", bad)
		_, err := New(make([]byte, MaxRingBytes), bad)
		require.Error(t, err, "%+v", bad)
	}
}

func TestNewChecksMemory(t *testing.T) {
	mem := make([]byte, smallLayout.Bytes()+8)
	_, err := New(mem[:smallLayout.Bytes()-1], smallLayout)
	require.ErrorContains(t, err, "ring object of")
	_, err = New(mem[4:], smallLayout)
	require.ErrorContains(t, err, "aligned")
	r, err := New(mem, smallLayout)
	require.NoError(t, err)
	require.Len(t, r.Bulk(), pageBytes)
	require.Equal(t, pageBytes, cap(r.Bulk()), "nothing behind the ring object can be reached")
}

// TestAreasDoNotOverlap writes into each area through its own API and finds the
// others untouched.
func TestAreasDoNotOverlap(t *testing.T) {
	f, b := newPair(t, smallLayout)
	fill := func(p *Producer, v byte) {
		for range MinSlots / 4 {
			mustPut(t, p, Header{}, bytes.Repeat([]byte{v}, 4*SlotBytes-HeaderBytes))
		}
		p.Publish()
	}
	fill(f.Requests(), 1)
	fill(b.CompletionsOut(), 2)
	copy(f.Bulk(), bytes.Repeat([]byte{3}, pageBytes))
	for ch := range uint32(MaxChannels) {
		b.SetDone(ch, math.MaxUint64)
	}
	b.SetState(StateLost)
	rq, cq := b.RequestsIn(), f.Completions()
	for range MinSlots / 4 {
		_, payload := mustGet(t, rq)
		require.Equal(t, bytes.Repeat([]byte{1}, 4*SlotBytes-HeaderBytes), payload)
		_, payload = mustGet(t, cq)
		require.Equal(t, bytes.Repeat([]byte{2}, 4*SlotBytes-HeaderBytes), payload)
	}
	require.Equal(t, bytes.Repeat([]byte{3}, pageBytes), b.Bulk())
	require.EqualValues(t, StateLost, f.State())
	require.Equal(t, uint64(math.MaxUint64), f.Done(0))
}

// queueMachine compares a queue of the ring with a slice.
type queueMachine struct {
	p         *Producer
	c         *Consumer
	put, seen []message // not yet published, published
	used      uint32    // slots
	asleep    bool
}

type message struct {
	h       Header
	payload []byte
}

func (m *queueMachine) Put(t *rapid.T) {
	n := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, MaxMessage-HeaderBytes)).Draw(t, "bytes")
	h := Header{Op: Op(rapid.Uint16().Draw(t, "op")), Flags: rapid.Uint16().Draw(t, "flags"), ID: rapid.Uint32().Draw(t, "id"), Errno: rapid.Uint32().Draw(t, "errno")}
	ok, err := m.p.Put(h, pattern(n))
	require.NoError(t, err)
	want := slotsFor(HeaderBytes + n)
	require.Equal(t, m.used+want <= MinSlots, ok)
	if ok {
		h.Bytes = uint32(HeaderBytes + n)
		m.put = append(m.put, message{h, pattern(n)})
		m.used += want
	}
}

func (m *queueMachine) Publish(t *rapid.T) {
	require.Equal(t, m.asleep && len(m.put) > 0, m.p.Publish())
	if len(m.put) > 0 {
		m.asleep = false
	}
	m.seen, m.put = append(m.seen, m.put...), nil
}

func (m *queueMachine) Get(t *rapid.T) {
	h, payload, ok, err := m.c.Get(make([]byte, MaxMessage))
	require.NoError(t, err)
	require.Equal(t, len(m.seen) > 0, ok)
	if ok {
		require.Equal(t, m.seen[0].h, h)
		require.Equal(t, m.seen[0].payload, payload)
		m.used -= slotsFor(int(h.Bytes))
		m.seen = m.seen[1:]
	}
}

func (m *queueMachine) Sleep(t *rapid.T) {
	m.asleep = len(m.seen) == 0
	require.Equal(t, m.asleep, m.c.Sleep())
}

func (m *queueMachine) Awake(*rapid.T) {
	m.c.Awake()
	m.asleep = false
}

func (m *queueMachine) Check(t *rapid.T) {
	require.Equal(t, len(m.seen) > 0, m.c.Ready())
}

func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, b := newPair(t, smallLayout)
		m := &queueMachine{p: f.Requests(), c: b.RequestsIn()}
		startAt(m.p, m.c, rapid.SampledFrom([]uint32{0, MinSlots - 3, math.MaxUint32 - 300}).Draw(t, "start"))
		t.Repeat(rapid.StateMachineActions(m))
	})
}

// Each channel of a file has a record in the ring object.
func TestRecordForEachChannel(t *testing.T) {
	require.Equal(t, MaxChannels, drm.MaxChannels+1)
	require.LessOrEqual(t, MaxChannels*ChannelRecordBytes, pageBytes)
}
